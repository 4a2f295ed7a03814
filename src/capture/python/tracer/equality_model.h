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

  // x is hashed, or compared as a key is: its value is guarded, or its identity if it compares by identity.
  bool guard_key(PyObject* x);
  bool guard_comparison(PyObject* a, PyObject* b);
  // Whether a source can name an item of a dict by this key: the key is found again in each call.
  bool is_source_key(PyObject* x) const;

 private:
  bool guard_key(PyObject* x, int depth);

  Trace& t_;
};

}  // namespace vesta::capture
