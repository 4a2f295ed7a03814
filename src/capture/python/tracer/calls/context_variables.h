// Context variables in a trace: read as places, set for real, and set back when the trace ends.
#pragma once

#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

class Tracer;

class ContextVariables {
 public:
  explicit ContextVariables(Tracer& tracer) : t_(tracer) {}
  // A new reference; nullptr with an error set. `otherwise`: the default that the call gives, or nullptr.
  PyObject* get(PyObject* variable, PyObject* otherwise);
  // Calls `method`, set or reset, whose arguments are `args`.
  PyObject* set(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable);
  PyObject* reset(PyObject* method, PyObject* const* args, Py_ssize_t n, PyObject* variable);
  // The count of the instruction that set a variable which is not what it was before the trace; -1: all are.
  int changed() const;
  void restore();

 private:
  struct Write {
    Object variable, before, token;  // of the first write
    int count;
  };
  bool is_written(PyObject* variable) const;
  Tracer& t_;
  std::vector<Write> writes_;
};

}  // namespace vesta::capture
