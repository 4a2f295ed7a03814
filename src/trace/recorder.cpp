#include "trace/recorder.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/check.h"
#include "base/compile_memory.h"
#include "base/fault.h"
#include "interop/torch_types.h"
#include "trace/tensors/wrapped.h"

namespace vesta::trace {
namespace {

// Many of ATen's kernels refuse tensors with more dimensions.
constexpr int64_t kMostDims = 64;

thread_local Recorder* current_recorder = nullptr;

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (!a.storage().is_alias_of(b.storage())) return false;
  const Bytes x = bytes_of(a), y = bytes_of(b);
  return x.begin < y.end && y.begin < x.end;
}

// Whether two elements of the tensor may share memory (as in an expanded tensor).
bool overlaps_itself(const at::Tensor& t) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.size(d) > 1 && t.stride(d) == 0) return true;
  if (t.is_non_overlapping_and_dense()) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.size(d) > 1) dims.emplace_back(t.stride(d), t.size(d));
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

// Newer versions of torch have no named tensors.
template <class T>
bool has_names(const T& t) {
  if constexpr (requires { t.has_names(); })
    return t.has_names();
  else
    return false;
}

}  // namespace

std::string why_not_traced(const at::Tensor& t) {
  if (!t.defined()) return "an undefined tensor";
  const auto* impl = t.unsafeGetTensorImpl();
  const auto keys = impl->key_set();
  if (t.layout() != at::kStrided) return "a tensor whose layout is not strided";
  if (t.is_quantized()) return "a quantized tensor";
  if (t.is_nested()) return "a nested tensor";
  if (keys.has(c10::DispatchKey::Python)) return "a tensor subclass";
  if (impl->has_symbolic_sizes_strides()) return "a tensor with symbolic sizes of another trace";
  if (is_wrapped(t)) return "a tensor of a functional transform (torch.func)";
  if (keys.has_any(c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::Functionalize,
                                        c10::DispatchKey::ZeroTensor, c10::DispatchKey::MkldnnCPU})))
    return "a tensor wrapped by another transformation";
  if (has_names(t)) return "a tensor with named dimensions";
  if (t.dim() > kMostDims) return fmt::format("a tensor of more than {} dimensions", kMostDims);
  if (to_dtype(t.scalar_type()) == DType::Other)
    return fmt::format("a tensor of type {}", c10::toString(t.scalar_type()));
  const DeviceType device = to_device(t.device()).type;
  if (device != DeviceType::CPU && device != DeviceType::CUDA)
    return fmt::format("a tensor on device {}", t.device().str());
  return {};
}

graph::TensorType static_type(const at::Tensor& t) {
  if (const std::string why = why_not_traced(t); !why.empty()) VESTA_UNSUPPORTED("{}", why);
  graph::TensorType type;
  type.dtype = to_dtype(t.scalar_type());
  type.device = to_device(t.device());
  type.sizes.reserve(t.dim());
  type.strides.reserve(t.dim());
  for (int64_t d = 0; d < t.dim(); ++d) {
    type.sizes.emplace_back(t.size(d));
    type.strides.emplace_back(t.stride(d));
  }
  return type;
}

Recorder::Recorder() : graph_(std::make_unique<graph::Graph>()) {
  context_ = graph_->context;
  guards_ = std::make_unique<graph::GraphGuards>(*graph_);
}

graph::Guards& Recorder::guards() {
  if (!graph_) VESTA_UNSUPPORTED("a symbolic size was used after its trace had ended");
  guards_->source = source;
  return *guards_;
}

Recorder* Recorder::current() { return current_recorder; }

RecorderScope::RecorderScope(Recorder& r) : previous_(current_recorder) { current_recorder = &r; }
RecorderScope::~RecorderScope() { current_recorder = previous_; }

bool is_tracing() { return current_recorder != nullptr; }

void Recorder::refuse_gradient(const at::Tensor& t) {
  if (gradients || !t.requires_grad()) return;
  withheld_gradient_ = true;
  if (c10::GradMode::is_enabled())
    throw NeedsGradients("needs gradients: a tensor requires grad and gradient mode is on");
}

void Recorder::note_grad_mode() {
  if (!c10::GradMode::is_enabled() || c10::InferenceMode::is_enabled()) return;
  recorded_in_grad_mode = true;
  // The program switched gradient mode on after it had read the tensor.
  if (withheld_gradient_ && !gradients)
    throw NeedsGradients("needs gradients: gradient mode is switched on for a tensor that requires grad");
}

namespace {

// GPU kernels access 16 bytes at once where alignment allows. On the CPU alignment makes no difference.
int64_t alignment_of(const at::Tensor& real) {
  constexpr uintptr_t wide = 16;
  if (!real.is_cuda() || !real.has_storage()) return 1;
  return reinterpret_cast<uintptr_t>(real.const_data_ptr()) % wide == 0 ? wide : 1;
}

}  // namespace

Alias& Recorder::add_input(const at::Tensor& real, graph::TensorType type, graph::InputKind kind, std::string name) {
  if (in_backward) VESTA_UNSUPPORTED("a backward formula uses a tensor from outside of the program");
  refuse_gradient(real);
  const int index = static_cast<int>(graph_->inputs.size());
  graph::Value* value = graph_->add_input(std::move(type), kind, std::move(name));
  graph_->inputs.back().alignment = alignment_of(real);
  auto [it, added] = real_.try_emplace(real.unsafeGetTensorImpl());
  RealTensor& entry = it->second;
  if (!added) {
    entry.same.push_back(index);
    if (gradients) gradients->add_input(real, entry.fake, /*is_new=*/false);
    return *entry.alias;
  }
  entry.tensor = real;
  entry.input = index;
  auto storage = std::make_shared<Storage>();
  storage->base = storage->initial = value;
  storage->input = index;
  entry.memory = storage;
  entry.alias = std::make_shared<Alias>(
      Alias{.storage = std::move(storage), .value = value, .conj_neg = conj_neg_of(*real.unsafeGetTensorImpl())});
  for (const RealTensor* other : real_order_) {
    const Storage& s = *other->memory;
    if (s.base != s.initial && overlap(other->tensor, real))
      VESTA_UNSUPPORTED("a tensor that shares memory with an input is used after the input was written");
  }
  real_order_.push_back(&entry);
  if (gradients) {
    entry.fake = make_fake(entry);
    gradients->add_input(real, entry.fake, /*is_new=*/true);
  }
  return *entry.alias;
}

Alias& Recorder::alias_of(const at::Tensor& t) {
  if (TracedTensorImpl* impl = traced(t)) {
    if (&impl->recorder() != this) VESTA_UNSUPPORTED("a traced tensor is used outside its own trace");
    if (t.requires_grad()) refuse_gradient(t);
    return impl->alias();
  }
  if (const auto it = real_.find(t.unsafeGetTensorImpl()); it != real_.end()) {
    return *it->second.alias;
  }
  return add_input(t, static_type(t), graph::InputKind::Parameter, "lifted" + std::to_string(graph_->inputs.size()));
}

graph::Value* Recorder::value_of(const at::Tensor& t) {
  graph::Value* const v = read(*this, alias_of(t));
  return gradients ? gradients->history.as_read(t, v) : v;
}

graph::TensorType Recorder::type_of(const at::Tensor& t) {
  if (TracedTensorImpl* impl = traced(t)) return impl->type();
  alias_of(t);
  return real_.at(t.unsafeGetTensorImpl()).memory->initial->type;
}

Expr Recorder::offset_of(const at::Tensor& t) {
  if (TracedTensorImpl* impl = traced(t)) return impl->offset();
  return 0;
}

int64_t Recorder::identity_of(const at::Tensor& t) {
  if (const TracedTensorImpl* impl = traced(t)) return impl->identity;
  alias_of(t);
  return real_.at(t.unsafeGetTensorImpl()).input;
}

at::Tensor Recorder::fake_of(const at::Tensor& real) {
  const RealTensor& entry = real_.at(real.unsafeGetTensorImpl());
  return entry.fake.defined() ? entry.fake : make_fake(entry);
}

at::Tensor Recorder::make_fake(const RealTensor& entry) {
  at::Tensor t =
      at::detail::make_tensor<TracedTensorImpl>(shared_from_this(), entry.alias, entry.memory->initial->type, Expr(0));
  fakes_.insert(t.unsafeGetTensorImpl());
  traced(t)->identity = entry.input;
  return t;
}

void Recorder::give_memory(const at::Tensor& real, const at::Tensor& made) {
  alias_of(real);
  RealTensor& entry = real_.at(real.unsafeGetTensorImpl());
  const TracedTensorImpl* const impl = traced(made);
  if (!impl || impl->alias().storage->input >= 0)
    VESTA_UNSUPPORTED("a tensor gets the memory of one that the program has not made (tensor.data = ...)");
  const Alias& given = impl->alias();
  read_memory(*this, impl->alias());
  if (given.view || given.conj_neg.any() || given.storage->backing.defined())
    VESTA_UNSUPPORTED("a tensor gets a part of another one's memory (tensor.data = ...)");
  if (made.requires_grad()) VESTA_UNSUPPORTED("a tensor gets the data of one that requires a gradient");
  if (impl->type() != entry.memory->initial->type)
    VESTA_UNSUPPORTED("a tensor gets data of another size, layout, type or device (tensor.data = ...)");
  if (!real.is_leaf() || real.is_view() || real.is_inference() || !entry.same.empty() || entry.alias->conj_neg.any())
    VESTA_UNSUPPORTED("a view, a result of an operator or an inference tensor gets other data (tensor.data = ...)");
  given.storage->is_given = true;
  *entry.alias = Alias{.storage = given.storage, .value = given.value, .version = given.version};
  if (gradients) gradients->history.part();
}

at::Tensor Recorder::fresh(graph::Value* value) {
  auto storage = std::make_shared<Storage>();
  storage->base = value;
  return at::detail::make_tensor<TracedTensorImpl>(
      shared_from_this(),
      std::make_shared<Alias>(Alias{.storage = std::move(storage), .value = value, .made_storage = true}), value->type,
      Expr(0));
}

namespace {
// A view of a detached tensor is detached.
at::Tensor shows(Recorder& r, at::Tensor out, const at::Tensor& source) {
  const TracedTensorImpl* shown = traced(source);
  traced(out)->detached = shown && shown->detached;
  traced(out)->counts_apart = shown && shown->counts_apart;
  traced(out)->base = shown && shown->base >= 0 ? shown->base : r.identity_of(source);
  return out;
}
}  // namespace

at::Tensor Recorder::view_of(const at::Tensor& source, std::shared_ptr<const View> view, graph::Value* value,
                             Expr offset) {
  Alias& a = alias_of(source);
  const graph::TensorType& type = value->type;
  auto out = at::detail::make_tensor<TracedTensorImpl>(shared_from_this(),
                                                       std::make_shared<Alias>(Alias{.storage = a.storage,
                                                                                     .view = std::move(view),
                                                                                     .value = value,
                                                                                     .version = a.storage->version,
                                                                                     .conj_neg = a.conj_neg}),
                                                       type, offset);
  return shows(*this, std::move(out), source);
}

at::Tensor Recorder::same(const at::Tensor& t) { return same(t, alias_of(t).conj_neg); }

at::Tensor Recorder::same(const at::Tensor& t, ConjNegBits conj_neg) {
  auto alias = std::make_shared<Alias>(alias_of(t));
  alias->made_storage = false;
  if (alias->conj_neg != conj_neg) alias->shown = nullptr;
  alias->conj_neg = conj_neg;
  at::Tensor out =
      at::detail::make_tensor<TracedTensorImpl>(shared_from_this(), std::move(alias), type_of(t), offset_of(t));
  return shows(*this, std::move(out), t);
}

std::string Recorder::source_of_node() const {
  std::string at = line ? line() : std::string();
  return source.empty() ? at : at.empty() ? source : source + ", " + at;
}

graph::Node* Recorder::add_node(const graph::Op& op, std::vector<graph::Arg> args,
                                std::vector<graph::TensorType> types) {
  using Clock = std::chrono::steady_clock;
  if (end != Clock::time_point::max() && Clock::now() > end) throw DeadlinePassed(op_count);
  if (!graphs_fit(memory)) throw GraphMemoryPassed(why_graphs_do_not_fit(memory));
  fault::reached("operator");
  graph::Node* node = graph_->add_node(op, std::move(args), std::move(types));
  node->source = source_of_node();
  ++op_count;
  return node;
}

graph::Value* Recorder::emit(std::string_view op, std::vector<graph::Arg> args,
                             std::vector<std::pair<std::string_view, graph::Arg>> named) {
  graph::Builder b(*graph_);
  b.source = source_of_node();
  ++op_count;
  return b(op, std::move(args), std::move(named));
}

void Recorder::refuse_write(Storage& s) {
  if (s.base->id < first_writable) VESTA_UNSUPPORTED("a backward method writes to a tensor that it has not made");
  if (s.input < 0 || s.base != s.initial) return;
  const RealTensor* written = real_tensor(s.input);
  if (written->tensor.is_inference() && !c10::InferenceMode::is_enabled())
    VESTA_UNSUPPORTED("an inference tensor is written outside of inference mode");
  if (overlaps_itself(written->tensor))
    VESTA_UNSUPPORTED("a write to an input whose elements share memory (an expanded tensor)");
  for (const RealTensor* other : real_order_)
    if (other != written && overlap(other->tensor, written->tensor))
      VESTA_UNSUPPORTED("a write to an input that shares memory with another input");
}

const Recorder::RealTensor* Recorder::real_tensor(int input) const {
  for (const RealTensor* r : real_order_)
    if (r->input == input) return r;
  if (!graph_) VESTA_UNSUPPORTED("a traced tensor is used outside its own trace");
  VESTA_CHECK(false, "input {} has no tensor", input);
}

int64_t Recorder::begin_in_storage(int input) {
  const int64_t begin = real_tensor(input)->tensor.storage_offset();
  storage_offsets.emplace_back(input, begin);
  return begin;
}

std::unique_ptr<graph::Graph> Recorder::close() {
  // Fake tensors and symbols that the program still has hold the recorder, which must not hold real tensors then.
  gradients.reset();
  real_order_.clear();
  real_.clear();
  known.clear();
  return std::move(graph_);
}

}  // namespace vesta::trace
