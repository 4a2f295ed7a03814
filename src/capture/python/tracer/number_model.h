// Numbers and texts that change from call to call. Sources: number_model.cpp (what a trace reads),
// number_arithmetic.cpp (what it computes of them).
//
// Guarantees: a number or text that did not change so far is a constant with a guard on its value. An integer that
// changed is a symbolic integer of the graph. A float or text that changed is a symbolic scalar (symbolic_scalar.h):
// its arithmetic is done again in each call, its comparisons are guards of their outcome, and what needs its value ends
// the trace, so that the next trace takes it as a constant.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "capture/python/functions/functions.h"
#include "capture/python/object.h"
#include "capture/python/tracer/trace_settings.h"

namespace vesta::capture {

class Trace;

struct IntegerRead {
  int source;
  int64_t value;
};

class NumberModel {
 public:
  explicit NumberModel(Trace& trace) : t_(trace) {}

  // An int, or any number or text, at a source; new, nullptr with an error set.
  PyObject* track_int(PyObject* x, int source);
  PyObject* track_scalar(PyObject* x, int source);
  // The source of the int that a symbolic integer stands for, or -1.
  int symbol_source(PyObject* x) const;
  // x with ints in place of symbolic ones, in tuples, lists and dicts too (those are copied); new, nullptr with an
  // error set.
  PyObject* plain(PyObject* x, int depth = 4);

  // What an operation (Compute, but no call) gives for symbolic scalars: another one, or a bool, which is guarded. New;
  // Py_NotImplemented if the other operand is no number, nullptr with an error set. `right`: nullptr for one operand.
  PyObject* calculate(int operation, PyObject* left, PyObject* right);
  // What a C function gives for symbolic scalars among its arguments; nullptr without an error: the function is not one
  // of numbers, and none of the arguments stops it.
  PyObject* call(const Callable& known, PyObject* f, PyObject* const* args, Py_ssize_t n, PyObject* names);
  // A 0-d tensor in the place of a symbolic scalar, for an operation with the tensor `other`; nullptr with an error
  // set.
  PyObject* as_tensor(PyObject* scalar, PyObject* other);
  // The source of the number that a tensor stands for in the graph, or -1.
  int source_of_tensor(PyObject* tensor) const;
  std::vector<int> sources_of_tensors() const;

  // Ends the trace: the program needs the value of a symbolic scalar.
  PyObject* specialize(PyObject* scalar);
  // C code failed with this operand: that is no error of the program's if the operand is a symbol.
  void note_failure(PyObject* operand);

  // The symbolic integers, in the order of the graph's integer inputs, with the values they have now.
  const std::vector<IntegerRead>& integers() const { return integers_; }

 private:
  // Whether the int at a source is a symbolic integer of the graph.
  bool is_symbolic_source(int source, int64_t value, bool overflow);
  // A list of the items of a list or tuple, without symbols; the sequence itself if it holds none; empty with an error
  // set.
  PyObject* make_scalar(PyObject* value, int source);
  int operand_source(PyObject* number);
  // The value that a number, symbolic or not, has now; empty if it is unknown.
  Object value_of(PyObject* number) const;
  // The result of an operation (or of the C function f) on numbers from these sources, done again in each call.
  PyObject* compute_in_calls(int operation, PyObject* f, PyObject* scalar, PyObject* left, PyObject* right,
                             int from_left, int from_right);

  Trace& t_;
  std::vector<IntegerRead> integers_;
  std::unordered_map<int, Object> symbols_;           // by source
  std::unordered_map<int, std::string> scalar_keys_;  // by source: into ValueHistory::scalars
  struct NumberTensor {
    Object real, fake;
  };
  std::unordered_map<int, NumberTensor> tensors_;  // by source
  int computed_count_ = 0;
};

}  // namespace vesta::capture
