#include "trace/trace.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/fault.h"
#include "graph/op.h"
#include "graph/rules/promotion.h"
#include "interop/torch_types.h"
#include "trace/generator.h"
#include "trace/operators/dispatch_key.h"
#include "trace/operators/fallback.h"
#include "trace/outputs.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

// Gives symbols to the dimensions that become symbolic.
class Symbols {
 public:
  explicit Symbols(graph::Graph& g) : graph_(g) {}

  Expr size(int64_t hint, int label, int input, int dim) {
    if (hint < 2) return hint;
    const auto key = label >= 0 ? std::pair<int64_t, int64_t>{1, label} : std::pair<int64_t, int64_t>{0, hint};
    if (const auto it = known_.find(key); it != known_.end() && vesta::hint(it->second) == hint) return it->second;
    return known_[key] = add(hint, {.input = input, .dim = dim, .stride = false});
  }

  // Strides of a tensor with symbolic sizes: products of sizes if the tensor is dense in some order, otherwise
  // constants.
  void strides(graph::TensorType& type, const at::Tensor& real) {
    std::vector<size_t> order;
    for (size_t d = 0; d < type.dim(); ++d)
      if (real.size(static_cast<int64_t>(d)) != 1) order.push_back(d);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const int64_t x = real.stride(static_cast<int64_t>(a)), y = real.stride(static_cast<int64_t>(b));
      return x != y ? x < y : a > b;
    });
    Expr next = 1;
    for (size_t d : order) {
      const int64_t stride = real.stride(static_cast<int64_t>(d));
      if (stride == 0) continue;
      // A gap (in a slice of a larger tensor) keeps its size; strides outside of it grow with the sizes inside.
      if (vesta::hint(next) == stride) type.strides[d] = next;
      next = type.strides[d] * type.sizes[d];
    }
    // For dimensions of size 1, torch's contiguous strides are products, too.
    Expr inner = 1;
    for (size_t d = type.dim(); d-- > 0;) {
      if (real.size(static_cast<int64_t>(d)) == 1 && vesta::hint(inner) == real.stride(static_cast<int64_t>(d)))
        type.strides[d] = inner;
      inner = inner * type.sizes[d];
    }
  }

  Expr add(int64_t hint, graph::SymbolSource source) {
    source.symbol = graph_.context->size_symbol("s" + std::to_string(graph_.symbols.size()), hint);
    graph_.symbols.push_back(source);
    return source.symbol;
  }

 private:
  graph::Graph& graph_;
  std::map<std::pair<int64_t, int64_t>, Expr> known_;
};

// The inputs of one trace, in the order in which they are added.
class Inputs {
 public:
  explicit Inputs(Recorder& r) : recorder_(r), symbols_(r.graph()), previous_(current) { current = this; }
  ~Inputs() { current = previous_; }
  Inputs& operator=(Inputs&&) = delete;  // neither copied nor moved

  // Returns the fake tensor or symbolic integer for the input.
  c10::IValue add(const TraceInput& in) {
    const auto dynamic = [&](size_t d) { return d < in.dynamic.size() && in.dynamic[d]; };
    const auto label = [&](size_t d) { return d < in.symbol_label.size() ? in.symbol_label[d] : -1; };
    if (in.value.isInt()) {
      const int64_t v = in.value.toInt();
      Expr e = v;
      // Without a label it shares no symbol with a size, because no guard would check that they stay equal.
      if (dynamic(0) && v >= 2)
        e = label(0) >= 0 ? symbols_.size(v, label(0), -1, integers_)
                          : symbols_.add(v, {.input = -1, .dim = integers_});
      ++integers_;
      if (e.is_constant()) return v;
      return to_sym_int(recorder_.shared_from_this(), e);
    }
    VESTA_CHECK(in.value.isTensor() && in.value.toTensor().defined(),
                "a trace input that is neither a tensor nor an int");
    const at::Tensor real = in.value.toTensor();
    if (traced(real)) VESTA_UNSUPPORTED("a trace inside a trace");
    const int index = static_cast<int>(recorder_.graph().inputs.size());
    graph::TensorType type = static_type(real);
    bool symbolic = false;
    for (size_t d = 0; d < type.dim(); ++d)
      if (dynamic(d)) {
        type.sizes[d] = symbols_.size(real.size(static_cast<int64_t>(d)), label(d), index, static_cast<int>(d));
        symbolic |= !type.sizes[d].is_constant();
      }
    if (symbolic) symbols_.strides(type, real);
    const std::string name = in.name.empty() ? "arg" + std::to_string(index) : in.name;
    recorder_.add_input(real, type, in.kind, name);
    auto [it, first] = seen_.try_emplace(real.unsafeGetTensorImpl());
    if (first) it->second = recorder_.fake_of(real);
    return it->second;
  }

  static thread_local Inputs* current;

 private:
  Recorder& recorder_;
  Symbols symbols_;
  int integers_ = 0;
  std::map<c10::TensorImpl*, at::Tensor> seen_;
  Inputs* previous_;
};
thread_local Inputs* Inputs::current = nullptr;

Traced trace_once(const std::vector<TraceInput>& inputs, const Program& program, const TraceOptions& options) {
  if (is_tracing()) VESTA_UNSUPPORTED("a trace inside a trace");
  const c10::DispatchKey key = claim_trace_key(&fallback);
  auto recorder = std::make_shared<Recorder>();
  recorder->line = options.line;
  recorder->place = options.place;
  recorder->end = options.end;
  recorder->memory = options.memory;
  Recorder& r = *recorder;
  // Tensors and symbols that leave a failed trace must not record into a destroyed graph.
  const auto close = c10::make_scope_exit([&] { r.close(); });
  const auto dtype = c10::make_scope_exit([was = graph::default_dtype()] { graph::set_default_dtype(was); });
  graph::set_default_dtype(to_dtype(c10::typeMetaToScalarType(c10::get_default_dtype())));
  // Tensors that autograd saves while it traces are never used. The caller's hooks are for those that the compiled
  // program saves.
  const bool hooks_were_traced = options.gradients && at::SavedTensorDefaultHooks::set_tracing(true);
  const auto hooks = c10::make_scope_exit([&] {
    if (options.gradients) at::SavedTensorDefaultHooks::set_tracing(hooks_were_traced);
  });
  if (options.gradients) r.gradients = std::make_unique<Gradients>(r);
  Traced out;
  Inputs adder(r);
  std::vector<c10::IValue> arguments;
  for (const TraceInput& in : inputs) arguments.push_back(adder.add(in));
  {
    // Autocast keeps casts of weights in a cache that would outlive the trace.
    const auto cache = c10::make_scope_exit(
        [was = at::autocast::is_autocast_cache_enabled()] { at::autocast::set_autocast_cache_enabled(was); });
    at::autocast::set_autocast_cache_enabled(false);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::IncludeDispatchKeyGuard include(key);
    // Traced tensors have eager's pending bits, which are applied where a value is read.
    const c10::impl::ExcludeDispatchKeyGuard marks(
        c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}));
    const RecorderScope scope(r);
    std::vector<c10::IValue> results;
    try {
      results = program(arguments);
    } catch (...) {
      if (r.failure) std::rethrow_exception(r.failure);
      throw;
    }
    if (r.failure) std::rethrow_exception(r.failure);
    r.source.clear();
    r.check_generator();
    finish_outputs(r, results);
    out.views = view_relations(r, results);
    if (r.gradients) {
      out.joint = r.gradients->add_backward(results);
      out.joint->checkpoints = r.checkpoints.regions();
    }
  }
  size_t given = 0;
  for (const TraceInput& in : inputs) given += in.value.isTensor();
  for (const auto* real : r.reals()) {
    if (static_cast<size_t>(real->input) >= given) out.lifted.push_back(real->tensor);
    out.inputs.resize(std::max(out.inputs.size(), static_cast<size_t>(real->input) + 1));
    out.inputs[static_cast<size_t>(real->input)] = real->tensor;
    for (const int same : real->same) {
      out.inputs.resize(std::max(out.inputs.size(), static_cast<size_t>(same) + 1));
      out.inputs[static_cast<size_t>(same)] = real->tensor;
    }
    if (real->memory->base != real->memory->initial && !real->memory->counts_writes)
      out.unseen_writes.push_back(real->input);
    if (const ConjNegBits conj_neg = conj_neg_of(*real->tensor.unsafeGetTensorImpl()); conj_neg.any()) {
      out.conj_neg.emplace_back(real->input, conj_neg);
      for (const int same : real->same) out.conj_neg.emplace_back(same, conj_neg);
    }
    if (real->same.empty()) continue;
    std::vector<int> group{real->input};
    group.insert(group.end(), real->same.begin(), real->same.end());
    out.same_inputs.push_back(std::move(group));
  }
  out.op_count = r.op_count;
  out.in_grad_mode = r.recorded_in_grad_mode;
  std::sort(r.storage_offsets.begin(), r.storage_offsets.end());
  r.storage_offsets.erase(std::unique(r.storage_offsets.begin(), r.storage_offsets.end()), r.storage_offsets.end());
  out.storage_offsets = r.storage_offsets;
  out.graph = r.close();
  fault::reached("trace");
  return out;
}

}  // namespace

DeadlinePassed::DeadlinePassed(int64_t operators)
    : Unsupported("it takes longer to trace than the option deadline_ms allows"), operators(operators) {}

GraphMemoryPassed::GraphMemoryPassed(const std::string& why)
    : OverBudget("its graph needs more memory than the option compile_memory allows: " + why), why(why) {}

GradientNotTraced::GradientNotTraced(std::string op, std::string why, int place)
    : Unsupported(fmt::format("the gradient of {} cannot be traced: {}", op, why)),
      op(std::move(op)),
      why(std::move(why)),
      place(place) {}

void prepare() {
  graph::find_op("");
  claim_trace_key(&fallback);
}

c10::IValue add_input(const TraceInput& input) {
  VESTA_CHECK(Inputs::current, "an input is added outside a trace");
  return Inputs::current->add(input);
}

Traced trace(const std::vector<TraceInput>& inputs, const Program& program, const TraceOptions& options) {
  // Other threads may draw while this one traces, so the trace is repeated. A program that draws without the dispatcher
  // draws each time.
  constexpr int kMostDraws = 8;
  const GeneratorState before;
  for (int draws = 0;;) {
    try {
      return trace_once(inputs, program, options);
    } catch (const GeneratorChanged& changed) {
      if (!changed.drawn_from) break;
      if (++draws < kMostDraws) continue;
      before.put_back();
      throw;
    }
  }
  // Another thread may have set the state. A program that sets it sets it again, whatever state it finds.
  const GeneratorState after;
  after.next().put_back();
  try {
    Traced traced = trace_once(inputs, program, options);
    after.put_back();
    return traced;
  } catch (...) {
    before.put_back();
    throw;
  }
}

}  // namespace vesta::trace
