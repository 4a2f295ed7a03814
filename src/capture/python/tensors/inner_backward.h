// Backward passes that a program runs while it is traced.
#pragma once

#include <Python.h>

#include <optional>
#include <vector>

#include "capture/python/object.h"

namespace vesta::capture {

// What torch.autograd's engine is asked for (trace/gradients/inner_backward.h). Objects are borrowed.
struct BackwardCall {
  std::vector<PyObject*> results, tangents, inputs;  // a tangent may be None
  bool accumulates = false, keeps_graph = false, creates_graph = false, allows_unused = false;
};

// What the trace does while a pass runs (PassEvents in trace/gradients/inner_backward.h).
class BackwardEvents {
 public:
  virtual ~BackwardEvents() = default;
  // What the functions in a dict make of a gradient, which may be None; new, nullptr with an error set. `leaf`: whose
  // hooks they are, a tensor of the program; nullptr: those of a tensor that the trace has made.
  virtual PyObject* hooked(PyObject* leaf, PyObject* hooks, PyObject* gradient) = 0;
  // The same for hooks on a node, with tuples of gradients. `arrived`: what the node has got, of hooks that run after
  // it; else nullptr.
  virtual PyObject* node_hooked(PyObject* hooks, PyObject* gradients, PyObject* arrived) = 0;
  // Gives a leaf a gradient, then calls the functions in a dict. False with an error set. `hooks`: nullptr: none.
  virtual bool accumulate(PyObject* leaf, PyObject* gradient, PyObject* hooks) = 0;
};

// The gradients that were asked for, None where an input was not used; none if the pass accumulates. nullopt with an
// error set; trace_failure() has the reason, unless the program has raised it.
std::optional<std::vector<Object>> trace_backward(const BackwardCall& call, BackwardEvents& events);
// Whether autograd would take what a hook has returned in the place of the gradient. False with an error set.
bool may_replace_gradient(PyObject* gradient, PyObject* returned);

// Notes that the program puts a hook on a tensor that it has made, or lets it keep its gradient. False with an error
// set.
bool note_hook(PyObject* tensor, bool keeps_gradient);
// Notes that the program puts a hook on the node of a torch.autograd.Function. False with an error set.
bool note_node_hook(PyObject* node);
// Whether the history of a tensor is such a node, or it has none.
bool has_function_node(PyObject* tensor);

// Hooks that a backward pass after the program calls: functions, in their order. Objects are owned.
struct LaterHooks {
  Object tensor;
  bool of_node = false;  // on the tensor's node, else on the tensor
  std::vector<Object> functions;
};
// Those that a pass from these results of the trace calls and that repeat_hooks() has not been told of.
std::vector<LaterHooks> later_hooks(const std::vector<PyObject*>& results);
// Each call puts these hooks on the tensor that it makes for theirs, a result; lets the tensor keep its gradient.
void repeat_hooks(const LaterHooks& hooks);
void repeat_retained(PyObject* tensor);
// Whether autograd keeps the gradient of this tensor: a leaf, or one that retains it.
bool keeps_gradient(PyObject* tensor);
bool retains_gradient(PyObject* tensor);  // and is no leaf
bool is_leaf(PyObject* tensor);
// The tensor that a view without a history of its own is a view of, for autograd; empty: it is no such view.
Object viewed_by_leaf(PyObject* view);

// What torch.autograd._make_grads takes for the gradient of a result; `given`: a tensor or None. A new reference, empty
// with an error set, nullopt where torch decides or refuses.
std::optional<Object> tangent_for(PyObject* result, PyObject* given);

// Tensors as autograd's own code may see them in a trace with gradients: those of the program in the place of which
// fake tensors stand. A new tuple; nullptr with an error set.
PyObject* fake_arguments(PyObject* const* arguments, Py_ssize_t n);
// Traces the backward method of a torch.autograd.Function. `arguments`: of its call, a tuple. `result`: a tensor or a
// tuple. False with an error set.
bool trace_function(PyObject* arguments, PyObject* result);

// From now on, a leaf of the program and its fake tensor require a gradient, or do not. At the end of the trace they
// must be as they were: then a result that depends on a leaf which began to require one ends the trace before the
// operator that took it. False with an error set.
bool require_gradient(PyObject* leaf, bool required);

// What AccumulateGrad makes of a gradient that a leaf has and a new one: the sum, in the memory of the old one unless
// the pass creates a graph. A new reference, nullptr with an error set.
PyObject* accumulated(PyObject* gradient, PyObject* added, bool creates_graph);

// Whether torch lets a leaf have this gradient: the same type, device and sizes, and no history.
bool may_be_gradient(PyObject* leaf, PyObject* gradient);
// leaf.grad = gradient, without torch's checks of it. None: it has none.
void put_gradient(PyObject* leaf, PyObject* gradient);

}  // namespace vesta::capture
