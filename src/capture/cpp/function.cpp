#include "vesta/detail/function.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/events.h"
#include "base/stopwatch.h"
#include "capture/cpp/function_impl.h"
#include "capture/entry/context_key.h"
#include "capture/entry/frame_events.h"
#include "capture/entry/late_trace.h"
#include "capture/entry/operator_count.h"
#include "pipeline/pipeline.h"
#include "trace/recorder.h"
#include "trace/trace.h"

namespace vesta::detail {

namespace {

constexpr size_t kEagerVariantLimit = 64;
// How many traces of a function may be given up for lack of time or memory before such calls run eager for good.
constexpr int kMostLateTraces = 3;
// How long a thread waits for another that compiles the same call before it runs eager.
constexpr std::chrono::seconds kCompileWait{20};
constexpr const char* kInBackground = "the compile goes on in the background";

bool has_gradient(const at::Tensor& t) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  return impl->requires_grad();
}

// Whether the tensor has a forward-mode tangent. Only autograd's own kernels compute tangents.
bool has_tangent(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->autograd_meta() && t._fw_grad(/*level=*/0).defined();
}

struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<Function::Impl>> functions;
  int64_t created = 0;
};
Registry& registry() {
  static Registry* r = new Registry();  // never destroyed: functions in static storage use it at exit
  return *r;
}

struct Compiling {
  Function::Impl& impl;
  std::pair<std::string, uint64_t> id;
  ~Compiling() {
    {
      std::lock_guard lock(impl.mutex);
      impl.compiling.erase(id);
    }
    impl.compiled.notify_all();
  }
};

std::string default_name(std::string name) {
  const int64_t n = ++registry().created;
  return name.empty() ? fmt::format("function {}", n) : name;
}

}  // namespace

Function::Function(std::string name, Options options, std::vector<InputInfo> tensors, std::vector<InputInfo> integers)
    : impl_(std::make_shared<Impl>()) {
  pipeline::prepare();
  std::lock_guard lock(registry().mutex);
  impl_->info = {default_name(std::move(name)), std::move(options), std::move(tensors), std::move(integers),
                 events::new_id()};
  if (!impl_->info.options.strict) impl_->account.set_share(impl_->info.options.recompile_share);
  auto& list = registry().functions;
  std::erase_if(list, [](const std::weak_ptr<Impl>& w) { return w.expired(); });
  list.push_back(impl_);
}

Function::~Function() = default;

void set_number_reader(NumberReader reader) { trace::set_number_reader(reader); }

namespace {

// How a call runs: by a variant, or eager for a reason.
struct Way {
  std::shared_ptr<const FunctionVariant> variant;
  std::string eager;
  std::exception_ptr error;                       // what strict mode rethrows
  bool refused = false;                           // strict mode does not allow it
  bool is_new = false;                            // the variant was made for this call
  std::shared_ptr<pipeline::Background> pending;  // its compile, which goes on in the background
  capture::LateTrace late;                        // it was given up for lack of time
};

Way refused(std::string reason, std::exception_ptr error = nullptr) {
  return {.eager = std::move(reason), .error = std::move(error), .refused = true};
}

// Why inputs of a call keep it from being compiled; nullptr: they do not.
const char* why_not_compiled(const Call& call) {
  for (const at::Tensor& t : call.tensors) {
    if (has_tangent(t)) return "an input has a forward-mode tangent";
  }
  return capture::foreign_mode();
}

// Why a variant may not run this call; nullptr: it may.
const char* why_not_run(const FunctionVariant& variant, const runtime::CallInputs& in) {
  if (variant.in_grad_mode && !variant.training && !c10::GradMode::is_enabled()) {
    for (size_t i = 0; i < in.tensor_count(); ++i)
      if (has_gradient(in.tensor(i))) return "gradients are recorded for an input";
  }
  if (!c10::InferenceMode::is_enabled()) {
    for (const int m : variant.executable->artifact().mutated)
      if (in.tensor(m).is_inference())
        return "an inference tensor is written outside of inference mode, which eager refuses";
  }
  return nullptr;
}

runtime::CallInputs inputs_of(const Call& call, const FunctionVariant& variant) {
  return {{call.tensors.data(), call.tensors.size()}, variant.lifted, {call.integers.data(), call.integers.size()}};
}

// The variant for a call that none serves yet. `waits`: until the compile has ended, whatever the options say.
Way make(Function::Impl& impl, const Call& call, uint64_t context, const Function::Program& program, bool waits) {
  if (std::string reason = impl.cannot_compile(call); !reason.empty()) return refused(std::move(reason));
  const std::string key(call.key.begin(), call.key.end());
  uint64_t generation = 0;
  {
    std::unique_lock lock(impl.mutex);
    const auto same = [&](const Function::Impl::Pending& p) { return p.id == Function::Impl::CallId(key, context); };
    if (const auto it = std::ranges::find_if(impl.pending, same); it != impl.pending.end())
      return {.eager = kInBackground, .pending = it->variant->pending};
    if (const auto it = impl.failed.find({key, context}); it != impl.failed.end())
      return refused(it->second.first, it->second.second);
    const auto free = [&] { return !impl.compiling.contains({key, context}); };
    if (!free() && !impl.compiled.wait_for(lock, kCompileWait, free))
      return refused("another thread is still compiling this call");
    if (auto found = impl.find(context, call)) return {.variant = std::move(found)};
    impl.compiling.insert({key, context});
    generation = impl.generation;
  }
  Compiling busy{impl, {key, context}};
  const auto list = impl.variants.load();
  size_t eager = 0;
  {
    std::lock_guard lock(impl.mutex);
    eager = impl.eager_variants;
  }
  std::string why = capture::functions::why_not(*list, key, context, call);
  const int64_t most = impl.info.options.variant_limit;
  const auto made = eager >= kEagerVariantLimit ? most : static_cast<int64_t>(list->size() - eager);
  if (std::string full = capture::why_no_more_variants(impl.info.options, made, why); !full.empty())
    return refused(std::move(full));
  const bool again = !list->empty();
  if (again && !waits) {
    if (std::string too_long = impl.account.why_not(impl.last_compile_ms); !too_long.empty())
      return {.eager = std::move(too_long)};
  }
  capture::functions::FunctionInfo info = impl.info;
  if (waits) info.options.deadline_ms = -1, info.options.background = false;
  const Stopwatch watch;
  const auto made_now =
      capture::functions::make_variant(info, call, key, context, *list, program, impl.enough_ms.load());
  impl.last_compile_ms = watch.milliseconds();
  if (!waits) impl.account.compiled(impl.last_compile_ms, again);
  if (made_now->pending) {
    std::lock_guard lock(impl.mutex);
    if (impl.generation == generation)
      impl.pending.push_back({made_now, {key, context}, std::move(why), impl.last_compile_ms, again});
    return {.eager = kInBackground, .pending = made_now->pending};
  }
  if (made_now->late && ++impl.late < kMostLateTraces) {
    Way way = refused(made_now->eager_reason, made_now->error);
    way.late = *made_now->late;
    return way;
  }
  impl.publish(made_now, generation, std::move(why));
  return {.variant = made_now, .is_new = true};
}

std::shared_ptr<const FunctionVariant> find(Function::Impl& impl, uint64_t context, const Call& call) {
  std::shared_ptr<const FunctionVariant> found = impl.find(context, call);
  if (!found && impl.take_finished()) found = impl.find(context, call);
  return found;
}

}  // namespace

bool Function::run(Call& call, const Program& program, Results& results, bool give_away) {
  Impl& impl = *impl_;
  if (trace::is_tracing()) return false;  // another trace is active: the callable runs as part of it
  std::optional<capture::FrameEvents> events;
  if (events::is_on()) events.emplace(impl.info.name, impl.info.name);
  const uint64_t context = capture::context_key();
  if (const char* const why = why_not_compiled(call)) return impl.fall_back(why);
  std::shared_ptr<const FunctionVariant> variant = find(impl, context, call);
  (variant ? impl.hits : impl.misses).count_shared();
  if (!variant) {
    Way way = make(impl, call, context, program, false);
    call.late = {way.late.deadline_ms, way.late.ms, way.late.operators};
    if (!way.variant) return way.refused ? impl.fall_back(way.eager, way.error) : impl.count_eager(way.eager);
    variant = std::move(way.variant);
  }
  if (!variant->eager_reason.empty())
    return variant->error ? impl.fall_back(variant->eager_reason, variant->error)
                          : impl.count_eager(variant->eager_reason);
  runtime::CallInputs in = inputs_of(call, *variant);
  if (const char* const why = why_not_run(*variant, in)) return impl.count_eager(why);
  in.packs = false;
  results.constants = variant->constants;
  std::span<at::Tensor> given;
  if (give_away) given = {call.tensors.data(), call.tensors.size()};
  events::Span span(events::Type::Run, impl.info.name);
  if (events::Event* const e = span.event()) e->ids.segment = impl.info.id, e->ids.variant = variant->id;
  try {
    const int64_t weight = impl.account.weight(impl.hits.value());
    std::optional<Stopwatch> watch;
    if (weight > 0) watch.emplace();
    const auto run_once = [&] {
      if (variant->training) {
        const at::AutoGradMode on(true);  // the graph says where the program records no gradients
        runtime::run(variant->training, in, results.values);
      } else {
        variant->executable->run(in, results.values, given);
      }
    };
    try {
      run_once();
    } catch (const runtime::NotPacked& e) {
      results.values.clear();
      if (!variant->packing->pack(variant->executable, in, e.bytes))
        return impl.count_eager(capture::kPacksInBackground);
      run_once();
    }
    trace::apply(variant->views, results.values, variant->training != nullptr);
    if (watch) impl.account.ran(watch->milliseconds(), weight);
    return true;
  } catch (const runtime::FailedAfterWriting& e) {  // an eager call would write a second time
    std::rethrow_exception(e.cause);
  } catch (const Error& e) {
    if (give_away) throw;
    results.values.clear();
    return impl.fall_back(std::string("while running: ") + e.what(), std::current_exception());
  } catch (const std::exception& e) {
    if (give_away) throw;
    // Eager has not seen any write yet. If the program itself is at fault, the eager call raises its own error.
    const std::string text = e.what();
    results.values.clear();
    return impl.count_eager("while running: " + text.substr(0, text.find('\n')));
  }
}

Warmed Function::warm(Call& call, const Program& program) {
  Impl& impl = *impl_;
  if (const char* const why = trace::is_tracing() ? "another trace is active" : why_not_compiled(call))
    return {.eager = why};
  const uint64_t context = capture::context_key();
  Way way{.variant = find(impl, context, call)};
  if (!way.variant) way = make(impl, call, context, program, true);
  const bool waited = way.pending != nullptr;  // for a compile that an earlier call began
  if (waited) {
    way.pending->wait_until(pipeline::Background::Clock::time_point::max());
    way = {.variant = find(impl, context, call)};
    if (!way.variant) way = make(impl, call, context, program, true);
  }
  if (!way.variant) return {.eager = way.eager};
  const FunctionVariant& v = *way.variant;
  if (!v.eager_reason.empty()) return {.eager = v.eager_reason};
  if (const char* const why = why_not_run(v, inputs_of(call, v))) return {.eager = why};
  v.executable->pack(inputs_of(call, v));
  return {.ready = true, .is_new = way.is_new || waited};
}

struct Function::EagerRun::Late {
  capture::LateTrace trace;
  capture::OperatorCount operators;
};

Function::EagerRun::EagerRun(const Function& function, const Call& call)
    : impl_(*function.impl_), begin_(std::chrono::steady_clock::now()) {
  if (call.late.operators > 0) late_.reset(new Late{{call.late.deadline_ms, call.late.ms, call.late.operators}, {}});
}

Function::EagerRun::~EagerRun() {
  const auto took = std::chrono::steady_clock::now() - begin_;
  impl_.account.ran(std::chrono::duration<double, std::milli>(took).count(), 1);
  if (!late_) return;
  const double enough = late_->trace.enough_ms(late_->operators.with_derivatives());
  double most = impl_.enough_ms.load();
  while (enough > most && !impl_.enough_ms.compare_exchange_weak(most, enough)) {
  }
}

bool Function::wait(std::chrono::steady_clock::time_point end) {
  std::vector<std::shared_ptr<pipeline::Background>> running;
  {
    const std::lock_guard lock(impl_->mutex);
    for (const Impl::Pending& p : impl_->pending) running.push_back(p.variant->pending);
  }
  bool all = true;
  for (const auto& compile : running) all = (compile->wait_until(end) || compile->is_lost()) && all;
  impl_->take_finished();
  const auto list = impl_->variants.load();
  for (const auto& v : *list) {
    for (const auto& half : v->backward) all = half->wait_until(end) && all;
    if (v->packing) all = v->packing->wait_until(end) && all;
  }
  return all;
}

FunctionReport Function::report() const { return report_of(*impl_); }

FunctionReport Function::report_of(const Impl& impl) {
  FunctionReport r;
  const auto list = impl.variants.load();
  for (const auto& v : *list) {
    if (!v->eager_reason.empty()) continue;
    r.variants.push_back(v->report);
    if (!v->failure.empty()) r.failures.push_back(v->failure);
    if (const int64_t bytes = v->executable->prepacked_bytes()) r.variants.back().packed_bytes = bytes;
    r.variants.back().graphs = v->executable->graphs();
  }
  std::lock_guard lock(impl.mutex);
  r.name = impl.info.name;
  r.fallbacks = impl.eager_calls.list();
  r.hits = impl.hits.value();
  r.misses = impl.misses.value();
  r.recompiles = impl.recompiles;
  return r;
}

void Function::reset() {
  std::lock_guard lock(impl_->mutex);
  ++impl_->generation;
  impl_->variants.store(std::make_shared<const FunctionVariantList>());
  impl_->eager_calls.clear();
  impl_->recompiles.clear();
  impl_->eager_variants = 0;
  impl_->late = 0;
  impl_->enough_ms = 0;
  impl_->pending.clear();
  impl_->failed.clear();
  impl_->account.clear();
  impl_->hits.clear();
  impl_->misses.clear();
}

namespace {
std::vector<c10::IValue>& spare_values() {
  static thread_local std::vector<c10::IValue> spare;
  return spare;
}
}  // namespace

void resize(Call& call, const std::vector<std::vector<int64_t>>& sizes) {
  if (sizes.empty()) return;
  VESTA_USER_CHECK(sizes.size() == call.tensors.size(), "the call has {} tensors, and sizes are given for {}",
                   call.tensors.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) call.tensors[i] = at::zeros(sizes[i], call.tensors[i].options());
}

std::vector<c10::IValue> borrow_values() { return std::move(spare_values()); }

void return_values(std::vector<c10::IValue>&& values) {
  values.clear();
  if (values.capacity() > spare_values().capacity()) spare_values() = std::move(values);
}

}  // namespace vesta::detail

namespace vesta {

std::vector<FunctionReport> reports() {
  std::vector<std::weak_ptr<detail::Function::Impl>> functions;
  {
    std::lock_guard lock(detail::registry().mutex);
    functions = detail::registry().functions;
  }
  std::vector<FunctionReport> out;
  for (const auto& weak : functions) {
    if (auto impl = weak.lock()) out.push_back(detail::Function::report_of(*impl));
  }
  return out;
}

}  // namespace vesta
