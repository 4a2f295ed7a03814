// Calls in a trace. Python code comes back to the tracer by the evaluation hook, whether the trace or C code calls it.
// C code is called if its row says what it reads and writes, or its handler does what it would do; any other C function
// is a graph break.
//
// The files of this folder: dispatch.cpp tells callables apart, class_calls.cpp calls a class, effects.cpp does what an
// effect says, compared_arguments.cpp guards what a function compares; the others hold the handlers of one subject
// each.
//
// What guards an argument of a C function: `may_read_arguments` guards the contents of containers (Tracker::operand,
// then ContainerModel::track_contents), `guard_compared` what keys and comparisons depend on (EqualityModel), the
// handler what it reads by itself. ContainerModel::before_write logs what the function writes.
#pragma once

#include <vector>

#include "capture/python/functions/functions.h"
#include "capture/python/object.h"
#include "capture/python/tracer/calls/call.h"
#include "capture/python/tracer/calls/context_variables.h"

namespace vesta::capture {

// Arguments for a call that are kept alive, one for each that it has.
class KeptArguments {
 public:
  explicit KeptArguments(const Call& c) { given_.reserve(static_cast<size_t>(c.all()) + 1); }
  bool add(Object x) {
    given_.push_back(x.get());
    kept_.push_back(std::move(x));
    return given_.back() != nullptr;
  }
  PyObject* const* data() const { return given_.data(); }

 private:
  std::vector<Object> kept_;
  std::vector<PyObject*> given_;
};

class Calls {
 public:
  explicit Calls(Trace& trace) : contexts(trace), t_(trace) {}

  // Each returns a new reference, or nullptr with an error set or after the trace has ended.
  PyObject* call(PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names);
  PyObject* call_unpacked(PyObject* f, PyObject* args, PyObject* keywords);

  // ---- for handlers
  // Calls the function itself, and makes its result known to the trace.
  PyObject* plainly(PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names);
  PyObject* plainly(const Call& c) { return plainly(c.function, c.args, c.n, c.names); }
  // The same, with integers in the place of symbolic ones.
  PyObject* with_numbers(const Call& c);
  // The same, for an operator on tensors. `as_data`: it reads the numbers in its arguments itself.
  PyObject* on_tensors(const Call& c, bool as_data);
  // Calls `inner` in the place of `f`, which is guarded by identity.
  PyObject* in_place_of(const Call& c, PyObject* inner);
  // The arguments from the index `first` on are known to the trace, and C code may read and call them. False: the trace
  // has ended.
  bool may_read_arguments(const Call& c, Py_ssize_t first = 0);
  // An argument that is itself a C function (a key, a callback) has a row by which C code may call it.
  bool may_pass(PyObject* x);
  // What the function of the call compares or looks up becomes a fact of the trace.
  bool guard_compared(const Callable& known, const Call& c);

  bool asked_compiling = false;  // the program asked whether it is being compiled
  ContextVariables contexts;
  // Calls of functions of functools.lru_cache whose results the cache had: the epilogue makes them again, for their
  // count.
  struct CachedCall {
    Object function, arguments, keywords;
  };
  std::vector<CachedCall> cached_calls;

 private:
  bool ends_at(PyObject* callable);
  PyObject* call_function(const Call& c);
  PyObject* call_method(const Call& c);
  PyObject* call_class(const Call& c);
  PyObject* call_partial(const Call& c);
  PyObject* call_known(const Callable& known, const Call& c);
  PyObject* by_effect(const Callable& known, const Call& c);
  bool may_write(const Callable& known, const Call& c);
  // False (the trace has ended): the call makes a weak reference to an object of the trace, or one with a callback.
  bool may_refer(const Call& c);

  Trace& t_;
};

// A call of a function that functools.lru_cache made.
PyObject* call_cached(Trace& t, const Call& c);
// What torch.Tensor(...), torch.FloatTensor(...) and Tensor.new(...) make of sizes or of data, a new reference. nullptr
// with an error set; nullptr without one: the arguments are neither. `like`: a tensor or a class of tensors.
PyObject* legacy_tensor(Trace& t, PyObject* like, PyObject* const* args, Py_ssize_t n);

}  // namespace vesta::capture
