// A guard: a fact about the object of a source, which a trace read and which must hold where its graph is used again.
// Data alone: guard_program.h checks guards, guard_text.h says them in words.
#pragma once

#include <Python.h>

#include <cstdint>

namespace vesta::capture {

enum class Check : uint8_t {
  Type,       // type(x) is `expected`
  Is,         // x is `expected`
  Same,       // x is the object of source `number`
  Different,  // x is another object than that of source `number`
  Equals,     // x is a scalar of expected's type and value (same_scalar)
  Present,    // the source finds an object
  Absent,     // the source finds none: a dict lacks the key, a cell or slot is empty
  Length,     // a list, tuple, dict or set has `number` items
  Keys,       // a dict's keys, in order, are those of `expected`, a tuple (in a GuardProgram: of its key list `number`)
  Members,    // a set equals `expected`, a frozenset of scalars and plain keys
  Class,      // the class `expected` has its version still, or every ClassLookup on it finds what it found (no source)
  Code,       // a function's __code__ is `expected`, its globals are the dict at address `number`
  Tensor,     // tensor_flags() of x, a tensor, are `number`
  Bare,       // x, a tensor, has no attributes of its own
  Skipped,    // whether the address of x is in `expected`, a frozenset, is `number`: vesta.compile(skip=...)
};

struct Guard {
  Check check;
  int source = -1;
  PyObject* expected = nullptr;  // the program keeps it alive, and asked_in
  int64_t number = 0;
  PyCodeObject* asked_in = nullptr;  // the code whose instruction at `position` read the fact
  int position = 0;
};

// What a trace found under a name on a class. Without a name, any change of the class counts.
struct ClassLookup {
  PyTypeObject* type;
  PyObject* name;
  PyObject* found;  // nullptr: nothing
};

}  // namespace vesta::capture
