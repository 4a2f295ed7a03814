// Tensors of a trace as Python objects. This folder is all of capture that includes torch.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/python/breaks/breaks.h"
#include "capture/python/object.h"
#include "capture/python/weak_references.h"
#include "trace/tensors/view_relation.h"
#include "vesta/capture_report.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::runtime {
class Executable;
}
namespace vesta::trace {
struct Tape;
}

namespace vesta::capture {

bool is_tensor(PyObject* x);  // torch.Tensor or a subclass
// A fake tensor that shows the memory of an input, while no gradients are recorded: it requires grad if the input does.
bool may_require_grad_unseen(PyObject* fake);
PyTypeObject* tensor_class();      // torch.Tensor
bool is_tensor_type(PyObject* x);  // torch.FloatTensor or another class of a dtype and device
// What Tensor.as_subclass gives: a new reference, nullptr with an error set.
PyObject* as_subclass(PyObject* tensor, PyObject* type);
bool is_base_tensor(PyObject* x);  // exactly torch.Tensor
// isinstance(t, type) as the program sees it where `type` is such a class, which no fake tensor is
// of, or a tuple with one of them; -1: it is not.
int is_of_tensor_type(PyObject* t, PyObject* type);
bool is_traced(PyObject* x);    // made in a trace
bool is_symbolic(PyObject* x);  // a torch.SymInt, SymFloat or SymBool
bool is_symbolic_int(PyObject* x);
bool is_symbolic_bool(PyObject* x);
bool requires_grad(PyObject* tensor);
std::vector<int64_t> sizes_of(PyObject* tensor);
bool are_strided(PyObject* tensor);  // its sizes and strides are plain numbers in memory
// What torch keeps on the side of a tensor's layout and values: requires_grad, whether it is a leaf, inference mode.
int64_t tensor_flags(PyObject* tensor);
// Its dtype, requires_grad and the magnitude of its size, for a comparison with another's.
uint64_t tensor_brief(PyObject* tensor);

// ---- while a graph is traced
// What stands for a real tensor; a new reference, nullptr with an error set. `dynamic`: per dimension.
PyObject* add_tensor_input(PyObject* real, const std::string& name, bool parameter, const std::vector<bool>& dynamic);
// A real tensor is an input of the graph from here on. False with an error set.
bool lift_tensor(PyObject* real);
// A 0-d tensor of float64 or int64 of a float or int; a new reference, nullptr with an error set.
PyObject* number_tensor(PyObject* number);
// An operation of it with such a tensor is the operation with the number itself: it has dimensions, which decide on the
// type of the result, and values of the number's kind or a higher one.
bool takes_number_tensor(PyObject* traced, PyObject* number);
// A symbolic integer (or the int itself where it must be a constant), the trace's next integer input.
PyObject* add_integer_input(int64_t value, const std::string& name);
// Guards on sizes that the trace has noted so far; who asked for those from `from` on, as "file:line".
size_t size_guard_count();
void say_who_asked(size_t from, const std::string& who);
// Operators that the trace has recorded so far.
int64_t recorded_operators();
// Something was asked of the trace that it cannot give; empty if not. It stays so until the trace ends.
Reason trace_failure();
// That is a gradient: the trace is to be made again with TraceKind::Gradients.
bool trace_needs_gradients();
// Of what a trace throws: as an operator said it.
Reason reason_for(const std::exception& e);
bool is_gradient_error(const std::exception& e);  // thrown by trace_graph: the same

// The global state of torch that a trace depends on, and may change.
struct TorchState {
  static constexpr int kOtherMode = -1;  // or more modes than these
  bool grad = false, inference = false, deterministic = false, deterministic_warn = false, autocast_cache = false;
  int threads = 0;
  int default_dtype = 0;
  struct Autocast {
    bool enabled = false;
    int dtype = 0;
    bool operator==(const Autocast&) const = default;
  } cpu, cuda;
  int autocast_nesting = 0;
  // From the outermost: a default device by a number of its own, kOtherMode, 0 where there is none.
  std::array<int, 4> function_modes{};
  int transforms = 0;  // levels of vmap, grad and the like
  bool function_enabled = true;
  bool operator==(const TorchState&) const = default;
};
TorchState torch_state();
// `entry` after the change that leads from one state to another; nullopt where set_torch_state cannot make it.
std::optional<TorchState> carried(TorchState entry, const TorchState& from, const TorchState& to);
// From one state to another of the same thread. False: that cannot be done.
bool set_torch_state(const TorchState& from, const TorchState& to);
// All of it as it was when this was made, whatever has come in between.
class KeptTorchState {
 public:
  KeptTorchState();
  ~KeptTorchState();
  KeptTorchState(const KeptTorchState&) = delete;
  KeptTorchState& operator=(const KeptTorchState&) = delete;
  const TorchState& state() const { return state_; }

 private:
  TorchState state_;
  struct Functions;  // torch function modes
  std::unique_ptr<Functions> functions_;
};
CaptureDifference difference(const TorchState& was, const TorchState& is);
// Calls must go through the dispatcher op by op: a dispatch mode or a functional transform is active.
bool is_foreign_mode_active();
bool are_function_modes_active();  // a TorchFunctionMode sees every operator, a default device too
// One that is no default device: what it does with an operator is known to it alone.
bool is_other_function_mode_active();

struct GraphInput {
  Object tensor;        // the real one
  bool seen_in_python;  // Python code has held it, or holds it: it is no number that an operator made a tensor of
};

struct TracedGraph {
  TracedGraph();
  ~TracedGraph();
  TracedGraph(TracedGraph&&) noexcept;
  TracedGraph& operator=(TracedGraph&&) noexcept;
  struct Impl;
  std::unique_ptr<Impl> impl;
  std::vector<GraphInput> inputs;  // of the graph, in order
  int64_t ops = 0;
  std::vector<OpCount> operators;  // in the order of first use
  bool in_grad_mode = false;       // an operator was recorded while gradient mode was on
  bool empty = false;              // nothing to run, and no input to check
};

// Runs `body` in a trace; its result are the traced tensors and symbolic integers that the graph returns (borrowed,
// alive until trace_graph returns). It may be run twice. Throws vesta::Unsupported or what the trace throws; a body
// that ends at a graph break throws itself.
// `line`: of the program that is being run, for messages.
TracedGraph trace_graph(const std::function<std::vector<PyObject*>()>& body, bool gradients,
                        std::function<std::string()> line);

struct CompiledGraph {
  std::shared_ptr<const runtime::Executable> executable;
  // With gradients: a callable on the inputs' tensors and the integers (python/vesta/training.py); the executable then
  // only checks them.
  Object differentiable;
  bool in_grad_mode = false;  // as of the trace
  bool calls_aten = true;     // a run may warn, or run Python code
  bool is_brief = false;      // a run takes no longer than handing the GIL on would
  std::vector<trace::ViewRelation> views;
  CompileReport report;
  // Of the parameters that weights are derived from; `watched`: the executable's times_derived() then.
  mutable WeakReferences parameters;
  mutable int64_t watched = 0;
};
// `integers`: the values that the symbolic ones had. Releases the GIL. Throws Unsupported or InternalError.
CompiledGraph compile_graph(TracedGraph graph, const Options& options, double trace_ms,
                            const std::vector<int64_t>& integers);

// How a tape becomes a Python object: the bindings know.
using TapeMaker = PyObject* (*)(std::shared_ptr<const trace::Tape>);
void set_tape_maker(TapeMaker maker);

}  // namespace vesta::capture
