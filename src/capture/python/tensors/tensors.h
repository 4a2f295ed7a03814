// Torch as the capture sees it: tensors as Python objects, fake tensors of a trace, torch's global state. This
// header shows no type of torch; of the other folders, `saving` alone includes torch.
#pragma once

#include <Python.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/python/breaks/breaks.h"
#include "capture/python/object.h"
#include "vesta/capture_report.h"

namespace vesta::trace {
struct Traced;
}  // namespace vesta::trace

namespace vesta::capture {

bool is_tensor(PyObject* x);  // torch.Tensor or a subclass
// A fake view of an input, made while no gradients are recorded: the real one requires grad if the input does.
bool may_require_grad_unseen(PyObject* fake);
PyTypeObject* tensor_class();      // torch.Tensor
bool is_tensor_type(PyObject* x);  // torch.FloatTensor or another class of a dtype and device
// The result of Tensor.as_subclass: a new reference, nullptr with an error set.
PyObject* as_subclass(PyObject* tensor, PyObject* type);
bool is_base_tensor(PyObject* x);  // exactly torch.Tensor
// isinstance(t, type) as the program sees it, if `type` is such a class or a tuple with one: no fake tensor is an
// instance of one. -1: `type` is another class, or others decide.
int is_of_tensor_type(PyObject* t, PyObject* type);
bool is_traced(PyObject* x);    // made in a trace, or wrapped by a functional transform around such a tensor
bool is_wrapped(PyObject* x);   // a tensor inside of a functional transform, alive or left
bool is_symbolic(PyObject* x);  // a torch.SymInt, SymFloat or SymBool
bool is_symbolic_int(PyObject* x);
bool is_symbolic_bool(PyObject* x);
bool requires_grad(PyObject* tensor);
bool may_require_grad(PyObject* tensor);  // by its dtype
std::vector<int64_t> sizes_of(PyObject* tensor);
bool are_strided(PyObject* tensor);  // its sizes and strides are plain numbers in memory
// Facts of a tensor beside its layout and values: requires_grad, whether it is a leaf, inference mode, whether there
// are hooks on its gradient, and whether some are not Python functions.
int64_t tensor_flags(PyObject* tensor);
// Its dtype, requires_grad and the magnitude of its size, as one word to compare.
uint64_t tensor_brief(PyObject* tensor);
bool is_grad_mode_on();  // of this thread

// ---- while a graph is traced
// The fake tensor for a real tensor, an input of the graph; a new reference, nullptr with an error set. `dynamic`: by
// dimension.
PyObject* add_tensor_input(PyObject* real, const std::string& name, bool parameter, const std::vector<bool>& dynamic);
// Makes a real tensor an input of the graph. False with an error set.
bool lift_tensor(PyObject* real);
// A 0-d tensor of float64 or int64 of a float or int; a new reference, nullptr with an error set.
PyObject* number_tensor(PyObject* number);
// An operation of `traced` with such a tensor gives what the operation with the number itself gives: `traced` has
// dimensions, which decide the type of the result, and its values are of the number's kind or a higher one.
bool takes_number_tensor(PyObject* traced, PyObject* number);
// A symbolic integer (or the int itself where it must be a constant), the trace's next integer input.
PyObject* add_integer_input(int64_t value, const std::string& name);
// The number of guards on sizes in the trace so far, and the line, "file:line", that caused those from `from` on.
size_t size_guard_count();
void say_who_asked(size_t from, const std::string& who);
// The number of operators that the trace has recorded so far.
int64_t recorded_operators();
// Why the trace cannot give what an operator or the program asked of it; empty if it can. Stays until the trace ends.
Reason trace_failure();
// The same, after a failure: the program does what only a trace with gradients can show.
Reason need_gradients(const char* why);
// The reason is a gradient: the frame must be traced again with gradients.
bool trace_needs_gradients();
// The reason for an exception of a trace, in the operator's own words.
Reason reason_for(const std::exception& e);
bool is_gradient_error(const std::exception& e);  // trace_graph threw it for a gradient
// trace_graph threw it for an operator without a traceable gradient: what `place` gave then; otherwise -1.
int place_of_gradient(const std::exception& e);
// trace_graph threw it for lack of time: the operators recorded until then; otherwise 0.
int64_t operators_until(const std::exception& e);

bool has_gpu();  // whether PyTorch sees one

// Torch's global state that a trace depends on and may change.
struct TorchState {
  static constexpr int kOtherMode = -1;  // another mode, or more modes than these
  bool grad = false, inference = false, deterministic = false, deterministic_warn = false, autocast_cache = false;
  int threads = 0;
  int default_dtype = 0;
  struct Autocast {
    bool enabled = false;
    int dtype = 0;
    bool operator==(const Autocast&) const = default;
  } cpu, cuda;
  int autocast_nesting = 0;
  // From the outermost: the number of a default device, kOtherMode, or 0 for none.
  std::array<int, 4> function_modes{};
  int transforms = 0;  // levels of functional transforms: vmap, grad and others
  bool function_enabled = true;
  bool saved_tensor_hooks = true;     // they are allowed
  bool leaves_in_transforms = false;  // requires_grad_() is allowed in a functional transform
  bool forward_gradients = true;      // forward-mode differentiation is switched on
  bool operator==(const TorchState&) const = default;
};
TorchState torch_state();
// `entry` after the changes between `from` and `to`; nullopt if set_torch_state() cannot make one of them.
std::optional<TorchState> carried(TorchState entry, const TorchState& from, const TorchState& to);
// Goes from one state of the thread to another. False: nothing changed, since one difference cannot be set.
bool set_torch_state(const TorchState& from, const TorchState& to);
// Puts the whole state back at its end, as it was at its begin.
class KeptTorchState {
 public:
  KeptTorchState();
  ~KeptTorchState();
  KeptTorchState& operator=(KeptTorchState&&) = delete;  // neither copied nor moved
  const TorchState& state() const { return state_; }

 private:
  TorchState state_;
  struct Whole;  // what TorchState has only in part
  std::unique_ptr<Whole> whole_;
};
CaptureDifference difference(const TorchState& was, const TorchState& is);
bool are_function_modes_active();  // a TorchFunctionMode sees every operator; a default device is one
// A TorchFunctionMode other than a default device is active: only the mode knows what it does with an operator.
bool is_other_function_mode_active();

struct GraphInput {
  Object tensor;        // the real one
  bool seen_in_python;  // Python code has held it; if not, an operator may have made it of a number
};

struct TracedGraph {
  std::shared_ptr<trace::Traced> traced;
  std::vector<GraphInput> inputs;  // of the graph, in order
  std::vector<OpCount> operators;  // in the order of first use
  bool in_grad_mode = false;       // an operator was recorded while gradient mode was on
  int64_t frames = 0;              // of Python functions that the trace entered
  double eager_us = 0;             // measured microseconds of an eager call with such arguments; 0: unknown
  bool empty = false;              // no operator, output or input
};

// A trace that passes one of them is given up (trace::TraceOptions).
struct TraceLimits {
  std::chrono::steady_clock::time_point end;
  int64_t memory;  // in bytes, of the graphs of the process
};

// Runs `body` in a trace, once or twice. Its result are the fake tensors and symbolic integers that the graph returns
// (borrowed, alive until trace_graph returns). Throws vesta::Unsupported, or what the trace or `body` throws; a body
// throws at a graph break. `line`: the program's present line, for messages. `place`: a number for the place where the
// program is.
TracedGraph trace_graph(const std::function<std::vector<PyObject*>()>& body, const TraceLimits& limits, bool gradients,
                        std::function<std::string()> line, std::function<int()> place);

}  // namespace vesta::capture
