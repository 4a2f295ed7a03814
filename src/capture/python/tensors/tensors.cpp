#include "capture/python/tensors/tensors.h"

#include <ATen/Context.h>
#include <ATen/LegacyVmapMode.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>
#include <bit>

#include "capture/python/package.h"
#include "capture/python/tensors/guarded.h"
#include "capture/python/tensors/leaf_hooks.h"
#include "capture/python/values/class_sets.h"
#include "trace/generator.h"
#include "trace/recorder.h"
#include "trace/tensors/traced_tensor.h"
#include "trace/tensors/wrapped.h"
#include "trace/trace.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::capture {

// By the type alone: isinstance() reads `__class__`, which may be a property of the program.
static bool is_a(PyObject* x, PyObject* type) {
  return PyType_IsSubtype(Py_TYPE(x), reinterpret_cast<PyTypeObject*>(type)) != 0;
}

bool is_tensor(PyObject* x) { return is_a(x, THPVariableClass); }
bool may_require_grad_unseen(PyObject* x) {
  const trace::TracedTensorImpl* impl = trace::traced(THPVariable_Unpack(x));
  return impl && !c10::GradMode::is_enabled() && !impl->detached && impl->alias().storage->input >= 0;
}

PyTypeObject* tensor_class() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }
bool is_tensor_type(PyObject* x) { return is_of(x, ClassSet::TensorTypes); }

PyObject* as_subclass(PyObject* tensor, PyObject* type) {
  static PyObject* const method = PyObject_GetAttrString(THPVariableClass, "as_subclass");
  return method ? PyObject_CallFunctionObjArgs(method, tensor, type, nullptr) : nullptr;
}

bool is_base_tensor(PyObject* x) { return reinterpret_cast<PyObject*>(Py_TYPE(x)) == THPVariableClass; }
bool is_traced(PyObject* x) {
  return is_tensor(x) && trace::traced(trace::unwrapped(THPVariable_Unpack(x))) != nullptr;
}
bool is_wrapped(PyObject* x) { return is_tensor(x) && trace::is_wrapped(THPVariable_Unpack(x)); }
int is_of_tensor_type(PyObject* x, PyObject* type) {
  if (PyTuple_Check(type)) {
    int found = -1;
    bool others = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i) {
      const int one = is_of_tensor_type(x, PyTuple_GET_ITEM(type, i));
      if (one > 0) return 1;
      if (one == 0) found = 0;
      others |= one < 0;
    }
    // isinstance() itself decides for other classes, and says False for these.
    return others ? -1 : found;
  }
  if (!is_tensor_type(type)) return -1;
  const at::Tensor& t = THPVariable_Unpack(x);
  const py::handle kind(type);
  return t.layout() == c10::kStrided && !py::cast<bool>(kind.attr("is_sparse")) &&
         py::cast<bool>(kind.attr("is_cuda")) == t.is_cuda() &&
         kind.attr("dtype").ptr() == reinterpret_cast<PyObject*>(torch::getTHPDtype(t.scalar_type()));
}

bool is_symbolic(PyObject* x) {
  return is_symbolic_int(x) || is_symbolic_bool(x) || is_a(x, torch::get_symfloat_class().ptr());
}
bool is_symbolic_int(PyObject* x) { return is_a(x, torch::get_symint_class().ptr()); }
bool is_symbolic_bool(PyObject* x) { return is_a(x, torch::get_symbool_class().ptr()); }
bool requires_grad(PyObject* t) { return THPVariable_Unpack(t).requires_grad(); }
bool may_require_grad(PyObject* t) {
  return torch::autograd::isDifferentiableType(THPVariable_Unpack(t).scalar_type());
}
std::vector<int64_t> sizes_of(PyObject* t) { return THPVariable_Unpack(t).sizes().vec(); }
bool are_strided(PyObject* x) {
  const at::Tensor& t = THPVariable_Unpack(x);
  return t.layout() == c10::kStrided && !t.is_nested() && !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

uint64_t tensor_brief(PyObject* x) {
  const c10::TensorImpl& t = *THPVariable_Unpack(x).unsafeGetTensorImpl();
  const bool plain = t.layout() == c10::kStrided && !t.has_symbolic_sizes_strides() &&
                     !t.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::NestedTensor));
  const auto size = plain ? static_cast<uint64_t>(t.numel()) : 0;
  const auto magnitude = static_cast<uint64_t>(std::bit_width(size) / 2);  // by factors of four
  return static_cast<uint64_t>(c10::typeMetaToScalarType(t.dtype())) | uint64_t{t.requires_grad()} << 8 |
         uint64_t{plain} << 9 | magnitude << 16;
}

bool is_grad_mode_on() { return c10::GradMode::is_enabled(); }

int64_t tensor_flags(PyObject* x) {
  const at::Tensor& t = THPVariable_Unpack(x);
  const bool grad = t.requires_grad(), leaf = grad && t.is_leaf();
  const LeafHooks hooks = leaf ? hooks_of(t) : LeafHooks();
  return int64_t{grad} | int64_t{leaf} << 1 | int64_t{t.is_inference()} << 2 | int64_t{hooks.any()} << 3 |
         int64_t{hooks.others} << 4;
}

PyObject* add_tensor_input(PyObject* real, const std::string& name, bool parameter, const std::vector<bool>& dynamic) {
  return guarded([&] {
    trace::TraceInput in{.value = THPVariable_Unpack(real), .name = name, .dynamic = dynamic};
    if (parameter && !THPVariable_Unpack(real).is_inference()) in.kind = graph::InputKind::Parameter;
    return THPVariable_Wrap(trace::add_input(in).toTensor());
  });
}

PyObject* number_tensor(PyObject* number) {
  const bool is_float = PyFloat_Check(number);
  const long long integer = is_float ? 0 : PyLong_AsLongLong(number);
  if (integer == -1 && PyErr_Occurred()) return nullptr;
  return guarded([&] {
    const c10::Scalar value = is_float ? c10::Scalar(PyFloat_AS_DOUBLE(number)) : c10::Scalar(int64_t{integer});
    return THPVariable_Wrap(at::detail::scalar_tensor_static(value, is_float ? at::kDouble : at::kLong, at::kCPU));
  });
}

bool takes_number_tensor(PyObject* x, PyObject* number) {
  const at::Tensor& t = THPVariable_Unpack(x);
  return t.device().is_cpu() && t.dim() > 0 && (t.is_floating_point() || t.is_complex() || !PyFloat_Check(number)) &&
         t.scalar_type() != at::kBool;
}

bool lift_tensor(PyObject* real) {
  PyObject* done = guarded([&] {
    trace::Recorder::current()->alias_of(THPVariable_Unpack(real));
    return Py_NewRef(Py_None);
  });
  Py_XDECREF(done);
  return done != nullptr;
}

PyObject* add_integer_input(int64_t value, const std::string& name) {
  return guarded([&] {
    const c10::IValue v = trace::add_input({.value = value, .name = name, .dynamic = {true}});
    return v.isInt() ? PyLong_FromLongLong(v.toInt()) : py::cast(v.toSymInt()).release().ptr();
  });
}

Reason reason_for(const std::exception& e) {
  if (dynamic_cast<const NeedsValue*>(&e)) return reason_for(Break::TensorValue, e.what());
  if (dynamic_cast<const trace::GeneratorChanged*>(&e)) return reason_for(Break::RandomState, e.what());
  if (dynamic_cast<const trace::DeadlinePassed*>(&e)) return reason_for(Break::DeadlinePassed);
  if (const auto* m = dynamic_cast<const trace::GraphMemoryPassed*>(&e)) return reason_for(Break::GraphMemory, m->why);
  const bool refused = dynamic_cast<const Unsupported*>(&e) != nullptr;
  return reason_for(refused ? Break::OperatorNotTraced : Break::TraceFailed, e.what());
}

bool is_gradient_error(const std::exception& e) { return dynamic_cast<const trace::NeedsGradients*>(&e) != nullptr; }

int place_of_gradient(const std::exception& e) {
  const auto* g = dynamic_cast<const trace::GradientNotTraced*>(&e);
  return g ? g->place : -1;
}

int64_t operators_until(const std::exception& e) {
  const auto* late = dynamic_cast<const trace::DeadlinePassed*>(&e);
  return late ? late->operators : 0;
}

bool has_gpu() { return at::hasCUDA(); }

namespace {

// What f makes of the error that has ended the trace.
template <class F>
std::invoke_result_t<F, const std::exception&> of_failure(F&& f) {
  trace::Recorder* r = trace::Recorder::current();
  if (!r || !r->failure) return {};
  try {
    std::rethrow_exception(r->failure);
  } catch (const std::exception& e) {
    return f(e);
  }
}

}  // namespace

Reason need_gradients(const char* why) {
  trace::Recorder* const r = trace::Recorder::current();
  if (!r->failure) r->failure = std::make_exception_ptr(trace::NeedsGradients(std::string("needs gradients: ") + why));
  return trace_failure();
}

bool trace_needs_gradients() { return of_failure(is_gradient_error); }
Reason trace_failure() {
  return of_failure([](const std::exception& e) { return reason_for(e); });
}

size_t size_guard_count() {
  trace::Recorder* r = trace::Recorder::current();
  return r ? r->graph().guards.size() : 0;
}

void say_who_asked(size_t from, const std::string& who) {
  std::vector<graph::Guard>& guards = trace::Recorder::current()->graph().guards;
  for (size_t i = from; i < guards.size(); ++i) guards[i].source = who;
}

int64_t recorded_operators() {
  const trace::Recorder* r = trace::Recorder::current();
  return r ? r->op_count : 0;
}

namespace {

// The number of the default device that torch.set_default_device or `with torch.device(...)` sets.
int mode_number(PyObject* mode) {
  static PyObject* const type = attribute_of("torch.utils._device", "DeviceContext").release();
  if (reinterpret_cast<PyObject*>(Py_TYPE(mode)) != type) return TorchState::kOtherMode;
  const Object device = attribute_of(mode, "device");
  if (!device || !THPDevice_Check(device.get())) return TorchState::kOtherMode;
  const c10::Device d = reinterpret_cast<THPDevice*>(device.get())->device;
  return 1 + (static_cast<int>(d.type()) << 9 | (d.index() + 1));
}

std::array<int, 4> function_modes() {
  using Modes = at::impl::PythonTorchFunctionTLS;
  std::array<int, 4> out{};
  const int64_t n = Modes::stack_len();
  if (n == 0) return out;
  for (size_t i = 0; i < out.size() && static_cast<int64_t>(i) < n; ++i)
    out[i] = mode_number(Modes::get_stack_at(static_cast<int64_t>(i))->ptr(getPyInterpreter()));
  if (n > static_cast<int64_t>(out.size())) out.back() = TorchState::kOtherMode;
  return out;
}

}  // namespace

// Levels of forward-mode differentiation, which the whole process shares.
static uint64_t dual_levels() {
  uint64_t n = 0;
  while (torch::autograd::ForwardADLevel::try_get_by_idx(n)) ++n;
  return n;
}

// A batch of tangents (is_grads_batched) has levels of its own.
static int64_t transform_levels() { return static_cast<int64_t>(at::functorch::getDynamicLayerStack().size()); }

TorchState torch_state() {
  const auto autocast = [](c10::DeviceType device) -> TorchState::Autocast {
    return {at::autocast::is_autocast_enabled(device), static_cast<int>(at::autocast::get_autocast_dtype(device))};
  };
  const int nesting = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  return {.grad = c10::GradMode::is_enabled(),
          .inference = c10::InferenceMode::is_enabled(),
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .deterministic_warn = at::globalContext().deterministicAlgorithmsWarnOnly(),
          .autocast_cache = at::autocast::is_autocast_cache_enabled(),
          .threads = at::get_num_threads(),
          .default_dtype = static_cast<int>(c10::typeMetaToScalarType(c10::get_default_dtype())),
          .cpu = autocast(c10::kCPU),
          .cuda = autocast(c10::kCUDA),
          .autocast_nesting = nesting,
          .function_modes = function_modes(),
          .transforms = static_cast<int>(transform_levels() + at::impl::VmapMode::current_vmap_level()),
          .function_enabled =
              at::impl::PythonTorchFunctionTLS::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED,
          .saved_tensor_hooks = at::SavedTensorDefaultHooks::is_enabled(),
          .leaves_in_transforms = at::functorch::getInplaceRequiresGradAllowed(),
          .forward_gradients = c10::AutogradState::get_tls_state().get_fw_grad_mode()};
}

struct KeptTorchState::Whole {
  at::impl::PythonTorchFunctionTLS functions = at::impl::PythonTorchFunctionTLS::get_state();
  at::impl::SavedTensorDefaultHooksTLS saved_tensor_hooks = at::SavedTensorDefaultHooks::get_tls_state();
  uint64_t dual_levels = vesta::capture::dual_levels();
  int64_t transforms = transform_levels(), batches = at::impl::VmapMode::current_vmap_level();
};

KeptTorchState::KeptTorchState() : state_(torch_state()), whole_(std::make_unique<Whole>()) {}

KeptTorchState::~KeptTorchState() {
  at::impl::PythonTorchFunctionTLS::set_state(whole_->functions);
  at::SavedTensorDefaultHooks::set_tls_state(whole_->saved_tensor_hooks);
  at::functorch::setInplaceRequiresGradAllowed(state_.leaves_in_transforms);
  c10::AutogradState::get_tls_state().set_fw_grad_mode(state_.forward_gradients);
  // The code that leaves these levels has not run.
  for (uint64_t n = dual_levels(); n > whole_->dual_levels; --n) torch::autograd::ForwardADLevel::release_idx(n - 1);
  while (transform_levels() > whole_->transforms) at::functorch::popDynamicLayerAndDeleteMetadata();
  while (at::impl::VmapMode::current_vmap_level() > whole_->batches) at::impl::VmapMode::decrement_nesting();
  TorchState now = torch_state(), was = state_;
  // No trace changes these.
  was.inference = now.inference;
  was.deterministic = now.deterministic;
  was.deterministic_warn = now.deterministic_warn;
  was.threads = now.threads;
  set_torch_state(now, was);
}

std::optional<TorchState> carried(TorchState entry, const TorchState& from, const TorchState& to) {
  TorchState reached = from;
  auto carry = [&](auto field) {
    if (from.*field != to.*field) entry.*field = to.*field;
    reached.*field = to.*field;
  };
  carry(&TorchState::grad);
  carry(&TorchState::cpu);
  carry(&TorchState::cuda);
  carry(&TorchState::autocast_cache);
  carry(&TorchState::default_dtype);
  entry.autocast_nesting += to.autocast_nesting - from.autocast_nesting;
  reached.autocast_nesting = to.autocast_nesting;
  if (reached == to) return entry;
  return std::nullopt;
}

bool set_torch_state(const TorchState& from, const TorchState& to) {
  if (!carried(from, from, to)) return false;
  c10::GradMode::set_enabled(to.grad);
  auto autocast = [](c10::DeviceType device, const TorchState::Autocast& was, const TorchState::Autocast& is) {
    if (was == is) return;
    at::autocast::set_autocast_enabled(device, is.enabled);
    at::autocast::set_autocast_dtype(device, static_cast<c10::ScalarType>(is.dtype));
  };
  autocast(c10::kCPU, from.cpu, to.cpu);
  autocast(c10::kCUDA, from.cuda, to.cuda);
  at::autocast::set_autocast_cache_enabled(to.autocast_cache);
  for (int n = from.autocast_nesting; n < to.autocast_nesting; ++n) at::autocast::increment_nesting();
  for (int n = from.autocast_nesting; n > to.autocast_nesting; --n)
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  if (from.default_dtype != to.default_dtype)
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(to.default_dtype)));
  return true;
}

CaptureDifference difference(const TorchState& was, const TorchState& is) {
  auto changed = [](const char* what, auto a, auto b) {
    return CaptureDifference{what, std::to_string(a), std::to_string(b), {}};
  };
  auto other = [](const char* what) { return CaptureDifference{what, "", "changed", {}}; };
  if (was.grad != is.grad) return changed("grad mode", was.grad, is.grad);
  if (was.inference != is.inference) return changed("inference mode", was.inference, is.inference);
  if (was.deterministic != is.deterministic || was.deterministic_warn != is.deterministic_warn)
    return changed("torch.use_deterministic_algorithms", was.deterministic, is.deterministic);
  if (was.threads != is.threads) return changed("torch.get_num_threads()", was.threads, is.threads);
  if (was.default_dtype != is.default_dtype) return other("torch.get_default_dtype()");
  if (was.cpu != is.cpu || was.cuda != is.cuda) return other("autocast");
  if (was.autocast_cache != is.autocast_cache || was.autocast_nesting != is.autocast_nesting)
    return other("autocast's cache or nesting");
  if (was.function_modes != is.function_modes) return other("the default device, or a torch function mode");
  if (was.transforms != is.transforms)
    return changed("the number of functional transforms", was.transforms, is.transforms);
  if (was.function_enabled != is.function_enabled) return other("whether __torch_function__ is called");
  if (was.saved_tensor_hooks != is.saved_tensor_hooks) return other("whether hooks on saved tensors are allowed");
  if (was.leaves_in_transforms != is.leaves_in_transforms)
    return other("whether requires_grad_() is allowed in a functional transform");
  if (was.forward_gradients != is.forward_gradients) return other("whether forward-mode differentiation is on");
  return {};
}

bool are_function_modes_active() { return at::impl::PythonTorchFunctionTLS::stack_len() > 0; }

bool is_other_function_mode_active() {
  const std::array<int, 4> modes = function_modes();
  return std::find(modes.begin(), modes.end(), TorchState::kOtherMode) != modes.end();
}

TracedGraph trace_graph(const std::function<std::vector<PyObject*>()>& body, const TraceLimits& limits, bool gradients,
                        std::function<std::string()> line, std::function<int()> place) {
  TracedGraph out;
  out.traced =
      std::make_shared<trace::Traced>(trace::trace({},
                                                   [&](const std::vector<c10::IValue>&) {
                                                     std::vector<c10::IValue> results;
                                                     for (PyObject* x : body()) {
                                                       if (is_tensor(x))
                                                         results.emplace_back(THPVariable_Unpack(x));
                                                       else
                                                         results.emplace_back(py::cast<c10::SymInt>(py::handle(x)));
                                                     }
                                                     return results;
                                                   },
                                                   {.gradients = gradients,
                                                    .line = std::move(line),
                                                    .place = std::move(place),
                                                    .end = limits.end,
                                                    .memory = limits.memory}));
  const trace::Traced& traced = *out.traced;
  for (const at::Tensor& t : traced.inputs) {
    const bool seen = t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() != nullptr;
    out.inputs.push_back({Object::take(THPVariable_Wrap(t)), seen});
  }
  out.in_grad_mode = traced.in_grad_mode;
  traced.graph->for_each_node([&](const graph::Node* n) {
    const std::string& name = n->op->name;
    const auto known =
        std::find_if(out.operators.begin(), out.operators.end(), [&](const OpCount& o) { return o.op == name; });
    if (known != out.operators.end())
      ++known->count;
    else
      out.operators.push_back({name, 1});
  });
  const graph::Graph& g = *traced.graph;
  out.empty = g.outputs.empty() && g.mutations.empty() && g.inputs.empty() && g.symbols.empty() && traced.op_count == 0;
  return out;
}

}  // namespace vesta::capture
