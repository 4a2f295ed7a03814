#include <map>
#include <set>

#include "artifact/bytes.h"
#include "artifact/uses.h"
#include "base/cancel.h"
#include "base/check.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/no_fork.h"
#include "base/totals.h"
#include "codegen/codegen.h"
#include "graph/copy.h"
#include "graph/device.h"
#include "graph/passes/library.h"
#include "graph/passes/pass.h"
#include "graph/text.h"
#include "loops/dag.h"
#include "machine/cuda/device_target.h"
#include "pipeline/assemble.h"
#include "pipeline/case_keeper.h"
#include "pipeline/dump.h"
#include "pipeline/inspection.h"
#include "pipeline/key.h"
#include "pipeline/labels.h"
#include "pipeline/pipeline.h"
#include "pipeline/planning.h"
#include "pipeline/strategy.h"
#include "pipeline/tune.h"
#include "schedule/lifetimes.h"
#include "schedule/plan.h"
#include "schedule/share_kernels.h"
#include "store/store.h"
#include "trace/trace.h"
#include "vesta/passes.h"

namespace vesta::pipeline {

namespace {

// The bytes of prepacked constants, by buffer. For weights in oneDNN's order it is an upper bound.
std::vector<int64_t> prepacked_bytes(const schedule::Plan& plan, const Target& target) {
  std::vector<int64_t> out;
  for (const schedule::Buffer& b : plan.buffers)
    out.push_back(b.role == schedule::BufferRole::Prepacked ? hint(graph::numel(b.type)) * element_size(b.type.dtype)
                                                            : 0);
  for (const schedule::Step& s : plan.prepacked) {
    const auto* e = std::get_if<schedule::ExternStep>(&s);
    if (!e || e->op != &graph::library_reorder()) continue;
    const auto groups = static_cast<size_t>(e->op->schema.index_of("groups"));
    const auto* arg = std::get_if<graph::Arg>(&e->args[groups]);
    const Expr* count = arg ? std::get_if<Expr>(arg) : nullptr;
    int64_t& bytes = out[static_cast<size_t>(e->results[0])];
    if (count && count->is_constant())
      bytes = graph::most_reordered_bytes(plan.buffers[static_cast<size_t>(e->results[0])].type, count->constant(),
                                          target.vector_bytes)
                  .value_or(bytes);
  }
  return out;
}

// Fills in what explain() shows of the plan.
void describe(const schedule::Plan& plan, const Target& target, artifact::About& about) {
  std::map<std::pair<std::string, std::string>, int64_t> externs;
  for (const auto* steps : {&plan.prepacked, &plan.steps}) {
    for (const schedule::Step& s : *steps) {
      if (const auto* k = std::get_if<schedule::KernelStep>(&s)) {
        about.kernels.push_back(
            {kernel_name(k->ops), {k->ops.begin(), k->ops.end()}, k->estimated_bytes, k->estimated_us, k->flops});
        about.ops_fused += static_cast<int64_t>(k->ops.size());
      } else if (const auto* e = std::get_if<schedule::ExternStep>(&s)) {
        ++externs[{e->op->name, e->reason}];
        ++about.ops_extern;
      }
    }
  }
  for (const auto& [key, count] : externs) about.externs.push_back({key.first, key.second, count});
  // Those that only other prepacked constants are made of are not kept.
  std::vector<bool> used(plan.buffers.size());
  for (const schedule::Step& s : plan.steps)
    schedule::for_each_buffer(s, [&](int b) { used[static_cast<size_t>(b)] = true; });
  const std::vector<int64_t> bytes = prepacked_bytes(plan, target);
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) about.packed_bytes += bytes[i];
}

void report_artifact(const artifact::Artifact& a, CompileReport& report) {
  report.kernels = a.about.kernels;
  report.externs = a.about.externs;
  report.ops_fused = a.about.ops_fused;
  report.ops_extern = a.about.ops_extern;
  report.packed_bytes = a.about.packed_bytes;
  report.arena_bytes = a.arena.kept_bytes;
  report.early_arena_bytes = a.arena.early_bytes;
  std::set<std::string_view> symbols;
  artifact::for_each_launch(a, [&](const artifact::Launch& l) {
    if (symbols.insert(l.object->symbol).second) report.code_bytes += static_cast<int64_t>(l.object->bytes.size());
  });
  report.distinct_kernels = static_cast<int64_t>(symbols.size());
  if (report.cached) report.cached_kernels = report.distinct_kernels;
  for (const artifact::Guard& g : a.guards) report.guards.push_back(g.text);
}

codegen::CompileOptions codegen_options(const Options& options, const CancelToken& cancel,
                                        const std::string& dump_dir = {}) {
  codegen::CompileOptions o;
  o.cancel = &cancel;
  o.memory = options.compile_memory;
  o.workers = options.compile_threads;
  o.dump_dir = dump_dir;
  o.store = options.cache ? store::shared() : nullptr;
  return o;
}

// A wrong kernel, for tests (base/fault.h).
std::string spoiled_kernel(std::string text) {
  const size_t at = text.find(" add ");
  return at == std::string::npos ? text : text.replace(at, 5, " sub ");
}

ObjectByText compile_kernels(const schedule::Plan& plan, const Target& target, const Options& options,
                             const CancelToken& cancel, Dump& dump, CompileReport& report) {
  ObjectByText objects;
  std::vector<codegen::Request> requests;
  std::vector<std::string> texts;
  for (const auto* steps : {&plan.prepacked, &plan.steps}) {
    for (const schedule::Step& s : *steps) {
      const auto* k = std::get_if<schedule::KernelStep>(&s);
      if (!k || objects.contains(k->text)) continue;
      objects.emplace(k->text, nullptr);
      std::string name = fmt::format("k{}_{}", requests.size(), kernel_name(k->ops));
      if (k->dag) dump.write(name + ".dag", loops::print(*k->dag));
      const std::string stage = fmt::format("kernel:{}", kernel_name(k->ops));
      fault::reached(stage);
      requests.push_back({k->text, std::move(name)});
      if (fault::spoils(stage)) requests.back().text = spoiled_kernel(k->text);
      texts.push_back(k->text);
    }
  }
  const auto compiled = codegen::compile(requests, target, codegen_options(options, cancel, dump.folder()));
  for (size_t i = 0; i < requests.size(); ++i) {
    objects[texts[i]] = compiled.at(i).object;
    report.cached_kernels += compiled[i].origin == codegen::Origin::Store;
    report.kernel_memory = std::max(report.kernel_memory, compiled[i].memory);
  }
  return objects;
}

// Records an event for each kernel that a variant runs, also for kernels from the cache.
void record_kernels(const artifact::Artifact& a) {
  std::set<std::string_view> symbols;
  artifact::for_each_launch(a, [&](const artifact::Launch& l) {
    if (symbols.insert(l.object->symbol).second)
      events::record(events::Type::Kernel, l.name, "loaded", l.object->symbol, l.object->symbol);
  });
}

void log_stages(const CompileReport& report) {
  if (!log::enabled(log::Topic::Stages)) return;
  std::string text = fmt::format("compiled {} ops in {:.2f} ms:", report.ops_traced, report.total_ms);
  for (const StageTime& s : report.stages) {
    if (s.ms >= 0.005) text += fmt::format(" {} {:.2f}", s.name, s.ms);
  }
  log::write(log::Topic::Stages, text);
}

// The stages between a graph and its artifact. None depends on names or lines of the program.
class Compile {
 public:
  // `measures`: the target is this machine, and kernels are measured on it.
  Compile(graph::Graph& graph, const Labels& labels, const Options& options, const Target& target, bool measures,
          const CancelToken& cancel, Dump& dump, CompileReport& report)
      : graph_(graph),
        labels_(labels),
        options_(options),
        target_(target),
        measures_(measures),
        cancel_(cancel),
        dump_(dump),
        report_(report),
        planning_(graph, labels, options, target, cancel, dump, report, /*shares_kernels=*/!measures) {}

  // Whether another compile of the same graph would give the same result: time did not run out.
  bool finished() const { return finished_; }

  artifact::Artifact run(Traced& traced) {
    std::optional<StrategyChoice> choice;
    std::unique_ptr<graph::Graph> calls;
    const bool chooses = options_.strategy == "auto" && options_.kernels && traced.may_choose && traced.inference;
    if (chooses && target_.device == DeviceType::CPU) {
      choice.emplace(graph_, traced.frames, traced.eager_us, options_.expected_calls);
      calls = graph::copy(graph_);
    }
    const bool plans = !choice || choice->whole_may_pay();
    schedule::Plan plan = plans ? planning_.plan(traced) : schedule::Plan();
    if (choice) report_.strategy = choice->choose(plans ? &plan : nullptr);
    if (choice && report_.strategy->chosen == "eager") throw NotWorthIt(to_string(*report_.strategy));
    if (choice && report_.strategy->chosen == "calls") {
      Options without = options_;
      without.kernels = false;
      artifact::Artifact made = Compile(*calls, labels_, without, target_, false, cancel_, dump_, report_).run(traced);
      finished_ = false;  // the store keeps results that depend on the graph alone
      return made;
    }
    if (!traced.inference && plan.device.type == DeviceType::CPU) schedule::allocate_step_by_step(plan);
    Tuned tuned;
    if (measures_)
      stage("tune", [&] {
        tuned = tune_here(plan, target_, options_.autotune_seconds, codegen_options(options_, cancel_));
        schedule::share_kernels(plan);
        report_.tuning = tuned.report;
        finished_ = tuned.finished;
      });
    if (dump_.active()) dump_.write_numbered("plan.txt", labels_.restore(schedule::print(plan)));
    if (log::enabled(log::Topic::Plan)) log::write(log::Topic::Plan, labels_.restore(schedule::print(plan)));

    ObjectByText objects;
    if (options_.kernels)
      stage("codegen", [&] { objects = compile_kernels(plan, target_, options_, cancel_, dump_, report_); });
    if (log::enabled(log::Topic::Kernels)) {
      for (const auto& [text, o] : objects)
        log::write(log::Topic::Kernels, fmt::format("{} bytes of code\n{}", o->bytes.size(), text));
    }
    artifact::Artifact made;
    stage("assemble", [&] {
      const NoFork no_fork;
      made = assemble(graph_, plan, objects);
      made.facts = std::move(traced.facts);
      made.outputs_recur = !traced.inference;
      describe(plan, target_, made.about);
    });
    return made;
  }

  template <class F>
  void stage(const char* name, F&& body) {
    run_stage(name, cancel_, report_, std::forward<F>(body));
  }

 private:
  graph::Graph& graph_;
  const Labels& labels_;
  const Options& options_;
  const Target& target_;
  const bool measures_;
  const CancelToken& cancel_;
  bool finished_ = true;
  Dump& dump_;
  CompileReport& report_;
  Planning planning_;
};

// The artifact that the store has for `key`, whose name is `name`; nullopt: none.
std::optional<artifact::Artifact> find(store::Store& store, const std::string& name, const artifact::Key& key) {
  const std::optional<std::string> bytes = store.find(name);
  if (!bytes) return std::nullopt;
  try {
    artifact::Artifact found = artifact::decode(*bytes);
    if (found.about.key == key) return found;
  } catch (const InternalError& e) {
    log::warn_once(fmt::format("an entry of the cache is not used: {}", e.what()));
  }
  return std::nullopt;
}

// Errors of a compile name inputs and lines.
template <class F>
auto with_labels(const Labels& labels, F&& body) {
  try {
    return body();
  } catch (const NotWorthIt&) {
    throw;
  } catch (const NeedsValue& e) {
    throw NeedsValue(labels.restore(e.what()));
  } catch (const Unsupported& e) {
    throw Unsupported(labels.restore(e.what()));
  } catch (const UserError& e) {
    throw UserError(labels.restore(e.what()));
  } catch (const InternalError& e) {
    throw InternalError(labels.restore(e.what()));
  }
}

}  // namespace

const Target& target_of(const graph::Graph& graph) {
  const NoFork no_fork;
  const std::optional<Device> gpu = graph::first_device(graph, DeviceType::CUDA);
  if (!gpu) return host_target();
  std::string why;
  const Target* const target = machine::cuda_target(std::max<int>(0, gpu->index), &why);
  if (target && codegen::available(*target, &why)) return *target;
  log::warn_once(fmt::format("CUDA programs run as calls into ATen: {}", why));
  return host_target();
}

namespace {

Result compile_in_stages(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced,
                         const Target& target, bool given, const CancelToken* cancel) {
  const CancelToken never;
  VESTA_USER_CHECK(options.numerics == "fast" || options.numerics == "eager",
                   "the option numerics is \"fast\" or \"eager\", not \"{}\"", options.numerics);
  Stopwatch total;
  Result result;
  CompileReport& report = result.report;
  report.ops_traced = traced.op_count ? traced.op_count : static_cast<int64_t>(graph->node_count());
  report.stages.push_back({"trace", traced.trace_ms});
  Dump dump(options);
  if (dump.active()) dump.write_numbered("graph_traced.txt", graph::print(*graph));
  if (log::enabled(log::Topic::Graph)) log::write(log::Topic::Graph, "traced graph\n" + graph::print(*graph));
  if (verifies_stages()) graph::verify(*graph);

  std::optional<NoFork> no_fork(std::in_place);
  const Labels labels = Labels::take(*graph);
  const bool measures = options.autotune_seconds > 0 && !given && options.kernels;
  Compile work(*graph, labels, options, target, measures, cancel ? *cancel : never, dump, report);
  // A dump needs every stage to run, so it bypasses the store.
  store::Store* const store = options.cache && !dump.active() ? store::shared() : nullptr;
  auto key = std::make_shared<CacheKey>();
  key->fields = key_of(graph::print_every_argument(*graph), traced, options, target);
  if (store) key->entry = name_of(key->fields);
  key->lines = labels.lines();
  report.key = key;
  no_fork.reset();
  std::optional<artifact::Artifact> artifact;
  if (store) {
    work.stage("find", [&] {
      const NoFork no_fork;
      artifact = find(*store, key->entry, key->fields);
    });
    report.cached = artifact.has_value();
    totals::of(report.cached ? totals::Count::ArtifactsFound : totals::Count::ArtifactsMissed).add();
  }
  if (!artifact) {
    artifact = with_labels(labels, [&] { return work.run(traced); });
    if (verifies_stages()) artifact::verify(*artifact);
    artifact->about.key = key->fields;
    if (store && work.finished())
      work.stage("encode", [&] {
        const NoFork no_fork;
        store->put(key->entry, artifact::encode(*artifact));
      });
  }
  work.stage("load", [&] {
    const NoFork no_fork;
    artifact->about.key.clear();
    labels.restore(*artifact);
    if (events::is_on()) record_kernels(*artifact);
    if (dump.active()) dump.write_numbered("artifact.txt", artifact::print(*artifact));
    report_artifact(*artifact, report);
    result.executable = std::make_shared<const runtime::Executable>(
        std::move(*artifact),
        runtime::GraphOptions{options.cuda_graphs, options.copied_inputs, options.cuda_graph_memory});
  });
  report.total_ms = traced.trace_ms + total.milliseconds();
  log_stages(report);
  return result;
}

}  // namespace

Result compile(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced, const Target* given,
               const CancelToken* cancel) {
  const Target& target = given ? *given : target_of(*graph);
  std::optional<KeptCase> kept;
  if (CaseKeeper::any()) kept.emplace(*graph, options, traced, target);
  try {
    Result result = compile_in_stages(std::move(graph), options, std::move(traced), target, given != nullptr, cancel);
    if (kept) kept->ended(result.report);
    return result;
  } catch (...) {
    if (kept) kept->failed(std::current_exception());
    throw;
  }
}

Inspection inspect(std::unique_ptr<graph::Graph> graph, const Options& options, const Traced& traced) {
  const CancelToken never;
  const Target& target = target_of(*graph);
  CompileReport report;
  Dump dump(options);
  const Labels labels = Labels::take(*graph);
  return with_labels(labels, [&] {
    const schedule::Plan plan = Planning(*graph, labels, options, target, never, dump, report).plan_every_layer(traced);
    return inspection_of(*graph, plan, labels);
  });
}

void prepare() noexcept {
  try {
    trace::prepare();
    key_of({}, {}, {}, host_target());
  } catch (const std::exception& e) {
    log::write(log::Topic::Fallbacks, fmt::format("preparing the first compile failed: {}", e.what()));
  }
}

}  // namespace vesta::pipeline

std::vector<std::string> vesta::passes() {
  std::vector<std::string> names = {std::string(pipeline::kLayersPass)};
  for (const graph::PassRow& row : graph::pass_table()) names.emplace_back(row.name);
  return names;
}
