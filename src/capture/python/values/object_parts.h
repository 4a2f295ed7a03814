// A number that changes whenever code gives an object another class (`x.__class__ = C`) or another `__dict__`
// (`x.__dict__ = d`): two equal readings mean that no object has another class or dict than before.
//
// CPython has no watchers for these two writes. Both go through setters of the interpreter, object.__class__'s and the
// one that all classes of Python share for `__dict__`; ours is put before each of them (docs/guards.md). Extension
// modules that write ob_type or the dict of an instance of another module's class without them are not noticed.
#pragma once

#include <Python.h>

#include <cstdint>

namespace vesta::capture {

// Whether writes to both parts of objects of this class change the number from now on. False before Python 3.12. Needs
// the GIL, as part_changes() does.
bool notes_parts_of(PyTypeObject* type);
uint64_t part_changes();

}  // namespace vesta::capture
