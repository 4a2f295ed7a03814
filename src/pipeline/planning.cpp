#include "pipeline/planning.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "base/check.h"
#include "base/log.h"
#include "base/no_fork.h"
#include "codegen/codegen.h"
#include "graph/layers.h"
#include "graph/passes/panels.h"
#include "graph/passes/pass.h"
#include "graph/text.h"
#include "schedule/cuda/products.h"
#include "schedule/register_tiles.h"
#include "schedule/repeat_layers.h"
#include "schedule/share_kernels.h"

namespace vesta::pipeline {

namespace {

// A wrong pass, for tests (base/fault.h).
void spoil_graph(graph::Graph& graph) {
  graph::Value* const v = graph.outputs.at(0).value;
  graph.outputs[0].value = graph::Builder(graph)("aten::neg", {v});
}

}  // namespace

bool verifies_stages() {
#ifdef NDEBUG
  static const bool on = std::getenv("VESTA_VERIFY") != nullptr;
  return on;
#else
  return true;
#endif
}

schedule::Plan Planning::plan(const Traced& traced) {
  if (std::optional<schedule::Plan> made = plan_layers_once(traced)) return std::move(*made);
  return plan_every_layer(traced);
}

schedule::Plan Planning::plan_every_layer(const Traced& traced) { return plan(graph_, traced); }

std::optional<schedule::Plan> Planning::plan_layers_once(const Traced& traced) {
  // A limit of rewrites counts those of all layers.
  if (graph::skips(options_, kLayersPass) || options_.rewrite_limit >= 0) return {};
  std::optional<graph::Layers> layers;
  const Stopwatch watch;
  {
    const NoFork no_fork;
    layers =
        graph::find_layers(graph_, [&](const std::string& a, const std::string& b) { return labels_.same_line(a, b); });
  }
  const size_t before = report_.stages.size();
  report_.stages.push_back({fmt::format("pass:{}", kLayersPass), watch.milliseconds()});
  if (!layers) return {};
  if (dump_.active())
    dump_.write_numbered(fmt::format("graph_{}.txt", kLayersPass), labels_.restore(graph::print(*layers->few)));
  const schedule::Plan few = plan(*layers->few, traced);
  std::optional<schedule::Plan> all;
  {
    const NoFork no_fork;
    const Stopwatch repeating;
    all = schedule::repeat_layers(few, graph_, *layers);
    if (all && packs_too_much(few, *all)) all.reset();
    report_.stages.back().ms += repeating.milliseconds();
  }
  if (!all) {  // the time so far is that of a pass without a result
    report_.stages.resize(before);
    report_.stages.push_back({fmt::format("pass:{}", kLayersPass), watch.milliseconds()});
    return {};
  }
  take_memory(schedule::plan_memory(graph_).kept, graph_);
  graph::take_facts(graph_, *layers);
  report_.layers = layers->count;
  return all;
}

// Whether layers that were not planned would have packed less, because the others use up the bytes that may be packed.
bool Planning::packs_too_much(const schedule::Plan& few, const schedule::Plan& all) const {
  const auto packed = [](const schedule::Plan& plan) {
    int64_t bytes = 0;
    std::vector<char> used(plan.buffers.size(), 0);
    for (const schedule::Step& s : plan.steps)
      schedule::for_each_buffer(s, [&](int b) { used[static_cast<size_t>(b)] = 1; });
    for (size_t b = 0; b < used.size(); ++b)
      if (used[b] && plan.buffers[b].role == schedule::BufferRole::Prepacked)
        bytes += hint(graph::numel(plan.buffers[b].type)) * element_size(plan.buffers[b].type.dtype);
    return bytes;
  };
  const int64_t most = graph::most_packed({.options = options_, .device = target_.device});
  return packed(few) <= most && packed(all) > most;
}

schedule::Plan Planning::plan(graph::Graph& graph, const Traced& traced) {
  run_passes(graph, traced.inference);
  schedule::Plan plan;
  run_stage("plan", cancel_, report_, [&] {
    std::optional<NoFork> no_fork(std::in_place);
    schedule::Options o;
    o.target = target_;
    if (!options_.kernels) {
      o.why_no_kernels = "the option kernels is off";
    } else if (!codegen::available(target_)) {
      o.why_no_kernels = "no code is generated for this device";
    }
    o.rounds = options_.numerics == "eager";
    o.deterministic = traced.deterministic;
    o.recorded = options_.cuda_graphs && target_.device == DeviceType::CUDA && traced.inference;
    o.keep_dags = dump_.active();
    const schedule::PlanMemory memory = schedule::plan_memory(graph);
    no_fork.reset();  // others may be waited for
    take_memory(memory.peak, graph);
    no_fork.emplace();
    plan = schedule::make_plan(graph, o);
    if (shares_kernels_) schedule::share_kernels(plan);
    no_fork.reset();
    take_memory(memory.kept, graph);
    report_.graph_memory = graph_.bytes();
    report_.plan_memory = memory.peak;
  });
  return plan;
}

void Planning::take_memory(int64_t bytes, const graph::Graph& planned) {
  memory_.take(bytes, compile_budget(options_.compile_memory),
               fmt::format("the plan of {} operators", planned.node_count()), &cancel_);
}

namespace {

// oneDNN's condition (mkldnn_bf16_device_check in ATen): AVX-512 with BW, VL and DQ, or AVX-NE-CONVERT.
bool library_takes_bf16(const Target& target) { return target.avx512 || has_feature(target, "avxneconvert"); }

// Of a CPU's caches. Some processors have no third level, or report none.
int64_t bytes_between_kernels(const Target& target) {
  const int64_t second = 2 * target.l2_bytes * target.threads;
  return std::max(int64_t{1} << 20, target.l3_bytes > 0 ? std::min(target.l3_bytes / 4, second) : second);
}

}  // namespace

graph::PassContext pass_context(const Options& options, const Target& target, bool inference) {
  graph::PassContext context{.options = options,
                             .device = target.device,
                             .inference = inference,
                             .vector_bytes = target.vector_bytes,
                             .cache_bytes = bytes_between_kernels(target),
                             .library_bf16 = library_takes_bf16(target),
                             .matrices = target.device == DeviceType::CPU && schedule::has_matrices(target)};
  if (target.device == DeviceType::CUDA) {
    context.computes_product = [&target](DType, int64_t rows, int64_t columns, int64_t inner) {
      return schedule::computes_product(rows, columns, inner, target);
    };
  } else if (codegen::available(target) && options.numerics != "eager") {
    // On a CPU, kernels that round as eager does compute no product.
    context.computes_product = [&target](DType element, int64_t rows, int64_t columns, int64_t inner) {
      return schedule::computes_in_registers(element, rows, columns, inner, target);
    };
    // Layers have weights of the same few sizes.
    context.panel_of = [&target, known = std::map<std::tuple<DType, int64_t, int64_t, int64_t, int64_t>, int64_t>()](
                           DType element, int64_t rows, int64_t columns, int64_t inner, int64_t apart) mutable {
      const auto [it, fresh] = known.try_emplace({element, rows, columns, inner, apart});
      if (fresh) it->second = schedule::panel_of(element, rows, columns, inner, apart, target);
      return it->second;
    };
  }
  return context;
}

void Planning::run_passes(graph::Graph& graph, bool inference) {
  std::optional<NoFork> no_fork(std::in_place);
  const graph::PassContext context = pass_context(options_, target_, inference);
  no_fork.reset();
  const StageClock all("passes");
  fault::reached("passes");
  Stopwatch watch;
  std::optional<events::Span> span;
  graph::run_passes(graph, context, verifies_stages(), [&](const graph::PassRow& row, bool before) {
    std::string name = fmt::format("pass:{}", row.name);
    if (before) {
      cancel_.check();
      fault::reached(name);
      watch = Stopwatch();
      span.emplace(events::Type::Stage, name);
      no_fork.emplace();
      return;
    }
    no_fork.reset();
    const double ms = watch.milliseconds();
    span.reset();
    if (fault::spoils(name)) spoil_graph(graph);
    report_.stages.push_back({std::move(name), ms});
    if (dump_.active())
      dump_.write_numbered(fmt::format("graph_{}.txt", row.name), labels_.restore(graph::print(graph)));
  });
  if (log::enabled(log::Topic::Graph))
    log::write(log::Topic::Graph, "graph after passes\n" + labels_.restore(graph::print(graph)));
}

}  // namespace vesta::pipeline
