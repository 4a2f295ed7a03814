#include "pipeline/backward.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "graph/device.h"
#include "graph/passes/passes.h"
#include "graph/saved_values.h"
#include "graph/segments.h"
#include "graph/tangents.h"
#include "interop/conj_neg.h"
#include "interop/torch_types.h"
#include "pipeline/planning.h"
#include "trace/graph_interpreter.h"

namespace vesta::pipeline {

BackwardCompiles::BackwardCompiles(std::shared_ptr<HalfSegments> half, int segment, const States& likely,
                                   const Options& options, Traced facts)
    : half_(std::move(half)), segment_(segment), options_(options), facts_(std::move(facts)) {
  if (!likely.empty()) start(likely, half_->graph(likely, segment_));
}

BackwardCompiles::Variant& BackwardCompiles::start(const States& states, std::unique_ptr<graph::Graph> graph) {
  auto made = std::make_unique<Variant>();
  made->pending = start_awaited(std::move(graph), options_, facts_);
  return *(variants_[states] = std::move(made));
}

std::shared_ptr<const runtime::Executable> BackwardCompiles::get(std::span<const TangentState> states) {
  const std::lock_guard lock(mutex_);
  const States key(states.begin(), states.end());
  const auto it = variants_.find(key);
  Variant* v = it == variants_.end() ? nullptr : it->second.get();
  if (!v || (v->pending && v->pending->is_lost())) v = &start(key, half_->graph(key, segment_));
  if (v->pending) {
    const bool waits = !options_.background && !v->is_late;
    if (waits && !v->pending->wait_until(end_of_wait(options_.deadline_ms))) v->pending->lower(), v->is_late = true;
    if (!v->pending->is_done()) return nullptr;
    try {
      Result result = v->pending->take();
      v->executable = std::move(result.executable);
      v->report = std::move(result.report);
    } catch (const std::exception& e) {
      v->error = std::current_exception();
      v->why = e.what();
      log::write(log::Topic::Fallbacks, "a backward half runs as calls of its operators: " + v->why);
    }
    v->pending.reset();
  }
  if (v->error && options_.strict) std::rethrow_exception(v->error);
  return v->executable;
}

std::vector<at::Tensor> BackwardCompiles::by_operators(std::span<const TangentState> states,
                                                       std::span<const at::Tensor> inputs,
                                                       std::span<const int64_t> sizes) const {
  const std::unique_ptr<graph::Graph> g = half_->graph(states, segment_);
  trace::GraphInterpreter in(*g, sizes);
  in.run(*g, inputs);
  std::vector<at::Tensor> out;
  for (const graph::Output& o : g->outputs)
    out.push_back(o.kind == graph::OutputKind::None ? at::Tensor() : with_bits(in.get(o.value), o.conj_neg));
  return out;
}

void BackwardCompiles::run_failed(std::span<const TangentState> states) {
  if (options_.strict) throw;
  std::string why = "an exception without a text";
  try {
    throw;
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
  }
  log::write(log::Topic::Fallbacks, "a backward pass ran as calls of its operators: " + why);
  const std::lock_guard lock(mutex_);
  variants_.at(States(states.begin(), states.end()))->run_error = std::move(why);
}

std::vector<std::string> BackwardCompiles::failures() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [states, v] : variants_) {
    if (v->error) out.push_back(v->why);
    if (!v->run_error.empty()) out.push_back("a run failed: " + v->run_error);
  }
  return out;
}

bool BackwardCompiles::wait_until(Background::Clock::time_point end) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [states, v] : variants_)
    if (v->pending && !v->pending->is_lost() && !v->pending->wait_until(end)) return false;
  return true;
}

std::vector<CompileReport> BackwardCompiles::reports() const {
  const std::lock_guard lock(mutex_);
  std::vector<CompileReport> out;
  for (const auto& [states, v] : variants_)
    if (v->executable) out.push_back(v->report);
  return out;
}

namespace {

// `program`: the text of a program that can run again. Most never do: it is kept as text until then.
runtime::Differentiable::Again run_again(std::string program) {
  struct Kept {
    explicit Kept(std::string program) : text(std::move(program)) {}
    std::once_flag once;
    std::string text;
    std::unique_ptr<const graph::Graph> graph;
  };
  using Given = runtime::Differentiable::Given;
  return [kept = std::make_shared<Kept>(std::move(program))](std::span<const at::Tensor> inputs,
                                                             std::span<const int64_t> sizes,
                                                             std::span<const int> outputs, const Given& given) {
    std::call_once(kept->once, [&] { kept->graph = graph::parse(std::exchange(kept->text, {})); });
    const graph::Graph& g = *kept->graph;
    const auto value = [&](int output) { return g.outputs[static_cast<size_t>(output)].value; };
    std::vector<const graph::Value*> starts, wanted;
    for (const int i : given.outputs) starts.push_back(value(i));
    for (const int i : outputs) wanted.push_back(value(i));
    trace::GraphInterpreter in(g, sizes);
    std::vector<at::Tensor> out;
    if (!starts.empty()) {
      std::vector<at::Tensor> values;
      {
        const at::NoGradGuard off;
        in.run(g, inputs, {}, starts);
        for (const graph::Value* v : starts) values.push_back(in.get(v));
      }
      for (size_t i = 0; i < starts.size(); ++i) in.set(starts[i], given.with_history(i, values[i]));
    }
    in.run(g, inputs, starts, wanted);
    for (const graph::Value* v : wanted) out.push_back(in.get(v));
    return out;
  };
}

graph::Limit limit_of(const Options& options) {
  graph::Limit out;
  if (!options.activation_memory) return out;
  if (const double* fraction = std::get_if<double>(&*options.activation_memory)) {
    VESTA_USER_CHECK(*fraction <= 1, "activation_memory is no fraction: {}", *fraction);
    out.fraction = *fraction;
  } else {
    out.bytes = std::get<int64_t>(*options.activation_memory);
  }
  return out;
}

// The tangents that the first backward pass probably brings: those of crossings, and that of the only result, or of a
// loss beside other results (its only number without dimensions). Empty: unknown.
std::vector<TangentState> likely_states(const graph::BackwardHalf& half) {
  const size_t count = half.results.size();
  std::vector<TangentState> states(count + half.takes.size(), TangentState::Dense);
  if (count == 0 || states.size() == 1) return states;
  for (size_t i = 0; i < count; ++i)
    if (half.graph->inputs[half.saved.size() + i].value->type.dim() > 0) states[i] = TangentState::Undefined;
  const auto likely = std::count(states.begin(), states.begin() + static_cast<ptrdiff_t>(count), TangentState::Dense);
  return likely == 1 || (likely == 0 && !half.takes.empty()) ? states : std::vector<TangentState>();
}

// By the checkpoint regions of the program. A node in the backward pass, or one without results, is in none.
graph::RegionOf region_of(const graph::Joint& joint) {
  if (joint.checkpoints.empty()) return {};
  return [&joint](const graph::Node* n) {
    const auto first = std::ranges::find_if(n->results, [](const graph::Value* v) { return v != nullptr; });
    return first == n->results.end() ? -1 : checkpoint_of(joint, **first);
  };
}

ActivationReport report_of(const graph::SavedValues& saved) {
  ActivationReport out{.saved_bytes = saved.bytes, .eager_saved_bytes = saved.eager_bytes, .limit = saved.limit};
  for (const graph::SavedValues::Kept& k : saved.kept) {
    const graph::Node* const n = k.value->producer;
    out.saved.push_back({.op = n ? n->op->name : "",
                         .source = n ? n->source : "",
                         .why = std::string(graph::text_of(k.why)),
                         .bytes = k.bytes});
  }
  for (const graph::Node* n : saved.recomputed) out.again.push_back({n->op->name, n->source});
  out.load_us = saved.load_us;
  out.again_us = saved.recompute_us;
  out.eager_load_us = saved.eager_us;
  return out;
}

// The passes that rewrite a joint graph before the choice of what is saved: what they compute can be saved instead of
// what the program computes. Where convolutions do not run in channels-last, those of one pixel are matrix products.
// Where they do, gradients of depthwise weights are sums. On a GPU, unaligned products of the forward pass are padded.
class JointPasses {
 public:
  JointPasses(const graph::Graph& g, const graph::Joint& joint, const Options& options, const Target& target)
      : context_(pass_context(options, target, false)) {
    // Crossings and checkpoint regions know the values of the forward pass.
    if (!options.kernels || !joint.crossings.empty() || !joint.checkpoints.empty()) return;
    const auto runs = [&](std::string_view pass) { return !graph::skips(options, pass); };
    reorders_ = runs("channels-last") && graph::trains_in_channels_last(g, context_);
    sums_ = runs("convolution-products") && (reorders_ || graph::has_depthwise_gradients(g, context_));
    multiplies_rows_ = runs("convolution-products") && (reorders_ || graph::has_pointwise_gradients(g, context_));
    multiplies_ = !reorders_ && runs("convolution-products") && graph::has_pointwise_convolutions(g, context_);
    context_.end = joint.first_backward;
    pads_ = target.device == DeviceType::CUDA && runs("aligned-products") && graph::has_unaligned_products(g, context_);
  }

  bool any() const { return reorders_ || sums_ || multiplies_rows_ || multiplies_ || pads_; }
  void run(graph::Graph& g, graph::Joint& joint) const {
    if (pads_) graph::align_products(g, context_);
    if (reorders_) graph::use_channels_last(g, context_, joint);
    if (sums_) graph::write_depthwise_gradients(g, context_, joint);
    if (multiplies_rows_) graph::write_pointwise_gradients(g, context_, joint);
    if (multiplies_) graph::write_pointwise_convolutions(g, context_, joint);
  }

 private:
  graph::PassContext context_;
  bool reorders_ = false, sums_ = false, multiplies_rows_ = false, multiplies_ = false, pads_ = false;
};

// The first crossing of the gradient of the same value.
int first_with_value_of(const graph::Joint& joint, size_t crossing) {
  const auto first = std::ranges::find(joint.crossings, joint.crossings[crossing].value, &graph::Crossing::value);
  return static_cast<int>(first - joint.crossings.begin());
}

// By result, whether its tangent is contiguous.
std::vector<bool> contiguous_tangents(const graph::BackwardHalf& half) {
  std::vector<bool> out(half.results.size());
  const size_t first = half.saved.size();
  for (size_t i = 0; i < out.size(); ++i) {
    const graph::TensorType& type = half.graph->inputs[first + i].value->type;
    out[i] = type.strides == graph::contiguous_strides(type.sizes);
  }
  return out;
}

// A program with gradients, before its forward half is compiled.
struct Training {
  std::unique_ptr<graph::Graph> forward;
  std::shared_ptr<runtime::Differentiable> program;  // without its forward executable
  std::vector<std::shared_ptr<BackwardCompiles>> backward;
};

// Splits a joint graph and starts the compiles of its backward halves.
Training split_training(JointProgram given, const Options& options, const Traced& facts, const CancelToken& cancel) {
  std::unique_ptr<graph::Graph> graph = std::move(given.graph);
  graph::Joint& joint = given.joint;
  const Buckets& buckets = given.buckets;
  // What the halves compute does not depend on what is detached. A second derivative does.
  std::string with_history;
  const bool has_history_nodes = graph::has_history_nodes(*graph);
  const Target& target = target_of(*graph);
  const std::vector<graph::Node*> softmax =
      options.kernels ? graph::find_wide_softmax(*graph, joint) : std::vector<graph::Node*>();
  const JointPasses passes(*graph, joint, options, target);
  const bool changes = has_history_nodes || !joint.crossings.empty() || !softmax.empty() || passes.any();
  if (joint.is_differentiable && graph->mutations.empty() && changes)
    with_history = graph::print(*graph::copy_program(*graph, joint));
  if (has_history_nodes) graph::drop_history_nodes(*graph);
  graph::divide_softmax(*graph, softmax);
  passes.run(*graph, joint);
  graph::narrow_masks(*graph);
  graph::replace_unread_random_states(*graph);
  if (options.kernels) graph::separate_running_statistics(*graph, joint);
  cancel.check();
  const graph::SavedValues saved = graph::choose_saved(*graph, joint.first_tangent, joint.first_gradient,
                                                       limit_of(options), target, region_of(joint));
  if (log::enabled(log::Topic::Plan)) log::write(log::Topic::Plan, graph::print(saved));
  cancel.check();
  graph::Halves halves = graph::split(std::move(graph), joint, saved.saved, saved.copied);
  Training out;
  out.program = std::make_shared<runtime::Differentiable>();
  runtime::Differentiable& d = *out.program;
  d.unseen_writes = std::move(given.unseen_writes);
  d.returned = halves.returned;
  d.histories = joint.histories;
  d.released = joint.released;
  d.saved = halves.saved;
  d.activations = report_of(saved);
  d.sizes = halves.sizes;
  d.places = joint.places;
  for (size_t i = 0; i < joint.crossings.size(); ++i) {
    const graph::Crossing& c = joint.crossings[i];
    d.crossings.push_back({.dtype = to_scalar_type(c.type.dtype),
                           .device = to_torch(c.type.device),
                           .sizes = std::move(halves.crossing_sizes[i]),
                           .place = c.place,
                           .next = c.next,
                           .output = c.output,
                           .value = static_cast<int>(joint.first_gradient) + first_with_value_of(joint, i)});
  }
  if (joint.is_differentiable && graph::can_run_again(*halves.forward) && facts.facts.conj_neg.empty())
    d.again = run_again(with_history.empty() ? graph::print(*halves.forward) : std::move(with_history));
  Traced same = facts;
  same.facts = {};
  same.may_choose = false;
  // The memory of GPUs is scarcer, and the launch of a segment's CUDA graph takes little.
  const int64_t segments = target.device == DeviceType::CUDA ? 12 : 6;
  for (graph::BackwardHalf& half : halves.backward) {
    std::vector<bool> contiguous = contiguous_tangents(half);
    if (half.gradients.empty()) {  // its results require a gradient all the same, as that of norm(x, 0)
      d.parts.push_back(
          {.results = std::move(half.results), .takes = std::move(half.takes), .contiguous = std::move(contiguous)});
      continue;
    }
    std::vector<int> segment_of = buckets.other > 0
                                      ? graph::segments_of(*half.graph, buckets.first, buckets.other)
                                      : graph::segments_for_memory(*half.graph, half.saved.size(), segments);
    const auto divided = std::make_shared<HalfSegments>(*half.graph, std::move(segment_of));
    const std::vector<TangentState> likely = likely_states(half);
    runtime::BackwardPart part{.saved = std::move(half.saved),
                               .results = std::move(half.results),
                               .takes = std::move(half.takes),
                               .inputs = std::move(half.inputs),
                               .gives = std::move(half.gives),
                               .gradients = std::move(half.gradients),
                               .contiguous = std::move(contiguous)};
    for (int s = 0; s < divided->count(); ++s) {
      auto compiles = std::make_shared<BackwardCompiles>(divided, s, likely, options, same);
      runtime::BackwardSegment& made = part.segments.emplace_back();
      for (size_t i = 0; i < part.gradients.size(); ++i)
        if (divided->segment_of(part.gradients[i]) == s) made.gradients.push_back(static_cast<int>(i));
      using States = std::span<const TangentState>;
      made.program = [compiles](States states) { return compiles->get(states); };
      made.by_operators = [compiles](States states, std::span<const at::Tensor> inputs,
                                     std::span<const int64_t> sizes) {
        return compiles->by_operators(states, inputs, sizes);
      };
      made.failed = [compiles](States states) { compiles->run_failed(states); };
      made.wires = [divided, s](States states) { return divided->wires(states, s); };
      out.backward.push_back(std::move(compiles));
    }
    d.parts.push_back(std::move(part));
  }
  out.forward = std::move(halves.forward);
  return out;
}

Result compile_training(JointProgram program, const Options& options, Traced facts, const CancelToken& cancel) {
  Training training;
  CompileReport split;
  run_stage("split", cancel, split, [&] { training = split_training(std::move(program), options, facts, cancel); });
  Result out = compile(std::move(training.forward), options, std::move(facts), nullptr, &cancel);
  training.program->forward = out.executable;
  out.training = std::move(training.program);
  out.backward = std::move(training.backward);
  const StageTime& took = split.stages.front();
  out.report.total_ms += took.ms;
  out.report.stages.insert(out.report.stages.begin() + 1, took);  // after the trace
  return out;
}

}  // namespace

std::shared_ptr<Background> start_training(JointProgram program, const Options& options, Traced facts,
                                           Background::Clock::time_point end) {
  const std::optional<Device> gpu = graph::first_device(*program.graph, DeviceType::CUDA);
  // std::function copies what it holds.
  auto shared = std::make_shared<std::pair<JointProgram, Traced>>(std::move(program), std::move(facts));
  std::shared_ptr<Background> started = start_awaited(
      [shared, options](const CancelToken& cancel) {
        return compile_training(std::move(shared->first), options, std::move(shared->second), cancel);
      },
      gpu, options);
  wait_or_lower(*started, options, end);
  return started;
}

}  // namespace vesta::pipeline
