// Hashes and equality: what a key, or an object that is looked for, is compared by becomes a guard.
//
// Guarantees: an object that hashes or compares by identity is guarded by its address; tuples, lists and dicts are
// guarded item by item. False everywhere: the trace has ended.
#pragma once

#include <Python.h>

namespace vesta::capture {

class Trace;

class EqualityModel {
 public:
  explicit EqualityModel(Trace& trace) : t_(trace) {}

  // x is hashed or compared.
  bool guard_by_value(PyObject* x);
  bool guard_comparison(PyObject* a, PyObject* b);
  // A source may name a dict's item by this key.
  bool is_source_key(PyObject* x) const;

 private:
  bool guard_by_value(PyObject* x, int depth);

  Trace& t_;
};

}  // namespace vesta::capture
