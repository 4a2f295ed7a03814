// Facts that a segment's trace read, and the flat program that checks them at every call. A check runs no Python code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "capture/python/frame/frame.h"
#include "capture/python/sources/source.h"
#include "vesta/capture_report.h"

namespace vesta::capture {

enum class Check : uint8_t {
  Type,       // type(x) is `expected`
  Is,         // x is `expected`
  Same,       // x is the object of source `number`
  Different,  // x is another object than that of source `number`
  Equals,     // x is of expected's type and equal: int, float (bit for bit), complex, str, bytes
  Present,    // the source finds something
  Absent,     // the source finds nothing: a dict lacks the key, a cell or slot is empty
  Length,     // a list, tuple, dict or set has `number` items
  Keys,       // a dict's keys, in order, are the list `number` of the program's
  Members,    // a set equals `expected`, a frozenset of scalars
  Class,      // the class `expected` is as it was (no source): its version, or else every name that was looked up on it
  Code,       // a function's __code__ is `expected`, its globals are the dict at address `number`
  Tensor,     // tensor_flags() of x, a tensor, are `number`
  Bare,       // x, a tensor, has no attributes of its own
};

struct Guard {
  Check check;
  int source = -1;
  PyObject* expected = nullptr;  // kept by the program's table
  int64_t number = 0;
  PyCodeObject* asked_in = nullptr;  // the code that asked; kept as well
  int position = 0;                  // of the instruction that asked
};

// Objects by source id, borrowed; nullptr: not loaded, or absent.
struct Registers {
  std::vector<PyObject*> objects;
  std::vector<Object> computed;  // by source: what no other place holds
  // What a graph is given, made anew in each call. It is kept with these, as an allocation of this size may make the C
  // library sort what was freed since the last one.
  std::vector<PyObject*> tensors;
  std::vector<int64_t> integers;
  uint64_t of_cache = 0;  // the state of the guard cache that they repeat; 0: none
  bool apart = false;     // what is written is no other object of these
  PyObject*& operator[](int source) { return objects[static_cast<size_t>(source)]; }
  PyObject* operator[](int source) const { return objects[static_cast<size_t>(source)]; }
};

// Where sources begin: a frame, or what its frames would have.
struct Roots {
  PyObject* const* slots;
  PyObject *function, *globals, *builtins;
};
Roots roots_of(Frame* f);

class GuardCache;

class GuardProgram {
 public:
  // `lookups`: (class, name, what the class had under it or nullptr), for Check::Class; without a name: any change of
  // the class counts.
  struct Lookup {
    PyTypeObject* type;
    PyObject* name;
    PyObject* found;
  };
  // `needed`: sources whose objects the caller reads from the registers when the check has passed.
  // `written`: sources of objects that the segment writes; none of `objects` may be one of them under another source.
  GuardProgram(SourceTable sources, std::vector<Guard> guards, std::vector<Lookup> lookups, std::vector<int> needed,
               std::vector<int> written, std::vector<int> objects);

  // Registers for one check. Of the last one if that is over: a collection of garbage in the middle of a check may run
  // Python code, and let another thread check the same program.
  class Lease {
   public:
    explicit Lease(const GuardProgram& program)
        : program_(program), registers_(program.spare_ ? std::move(program.spare_) : std::make_unique<Registers>()) {}
    ~Lease() { program_.spare_ = std::move(registers_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Registers& operator*() const { return *registers_; }

   private:
    const GuardProgram& program_;
    std::unique_ptr<Registers> registers_;
  };
  // kHolds if all hold; else the index of the guard that does not, or kAliased. By what the last check that held
  // remembers if that suffices; the registers of sources that are not `needed` may be missing.
  static constexpr int kHolds = -1, kAliased = -2;
  int check(Frame* f, Registers& registers) const;
  // The same without those sources and the guards that read them, and without memory of the last check: what hangs on
  // the roots alone. Fills the registers of all other sources.
  int check_without(const std::vector<bool>& sources, const Roots& roots, Registers& registers) const;
  // Of the guard that check() returned for the same frame.
  CaptureDifference difference(int guard, const Registers& registers) const;
  std::string text(const Guard& g) const;
  const std::vector<Guard>& guards() const { return guards_; }
  const SourceTable& sources() const { return sources_; }
  // Of a guard Check::Keys, in order.
  const std::vector<PyObject*>& keys(const Guard& g) const { return keys_[static_cast<size_t>(g.number)]; }
  // The frame's code, for names in texts.
  PyCodeObject* code = nullptr;
  int traverse(visitproc visit, void* arg) const;
  // All references it has.
  void add_holders(std::vector<std::vector<Object>*>& holders);

 private:
  struct Step {
    int source;  // to load, or -1
    int guard;   // to check, or -1
  };
  int check_all(const Roots& roots, Registers& registers) const;
  void load(int source, const Roots& roots, Registers& registers) const;
  PyObject* find(const Source& s, const Roots& roots, Registers& registers) const;
  bool holds(const Guard& g, PyObject* x, const Registers& registers) const;
  bool class_is_as_it_was(const Guard& g) const;
  bool is_aliased(const Registers& r, const std::vector<int>& objects) const;

  SourceTable sources_;
  std::vector<Object> kept_;
  std::vector<std::vector<PyObject*>> keys_;  // of Check::Keys
  std::vector<Guard> guards_;
  std::vector<Lookup> lookups_;
  std::vector<Step> steps_;
  std::vector<int> written_, objects_;
  std::shared_ptr<GuardCache> cache_;
  mutable std::unique_ptr<Registers> spare_;
  mutable std::vector<unsigned> versions_;  // per guard: of Check::Class, the version last seen to be right
};

// The keys of a dict in its order, as a new tuple.
PyObject* keys_of(PyObject* dict);
// __dict__ of an instance, made if need be; borrowed, nullptr without an error if it has none.
PyObject* instance_dict(PyObject* object);
bool is_bare(PyObject* object);  // it has no attributes of its own; no dict is made for the question
// An int, float, bool, complex, str, bytes, None, Ellipsis or NotImplemented (exactly these types).
bool is_scalar(PyObject* x);
bool same_scalar(PyObject* a, PyObject* b);  // ranges and devices, too
// A slot's function bound to an object.
bool is_method_wrapper(PyObject* x);
// A class, function or descriptor that is a key by its identity: no Python code is asked for its hash.
bool is_plain_key(PyObject* x);
bool holds_plain_keys(PyObject* set);     // scalars, classes and functions, and nothing else
unsigned version_of(PyTypeObject* type);  // 0: it has none

}  // namespace vesta::capture
