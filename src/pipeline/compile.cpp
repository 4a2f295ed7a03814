#include <chrono>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "graph/passes/pass.h"
#include "loops/kernel.h"
#include "pipeline/assemble.h"
#include "pipeline/dump.h"
#include "pipeline/pipeline.h"
#include "schedule/plan.h"

namespace vesta::pipeline {

namespace {

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Boundaries are verified where a wrong pass would otherwise show up far away: debug builds, tests, dumps.
bool verify_boundaries() {
#ifdef NDEBUG
  static const bool on = std::getenv("VESTA_VERIFY") != nullptr;
  return on;
#else
  return true;
#endif
}

// Kernels per (family of) name in the report; the same kernel launched often is listed once.
void describe(const schedule::Plan& plan, const ObjectByText& objects, CompileReport& report) {
  std::map<std::pair<std::string, std::string>, int64_t> externs;
  for (const auto* steps : {&plan.derived, &plan.steps}) {
    for (const schedule::Step& s : *steps) {
      if (const auto* k = std::get_if<schedule::KernelStep>(&s)) {
        KernelInfo info;
        for (const std::string& op : k->ops) {
          info.name += (info.name.empty() ? "" : "_") + op.substr(op.rfind(':') + 1, op.find('.') - op.rfind(':') - 1);
        }
        info.ops = k->ops;
        info.bytes = k->estimated_bytes;
        info.estimated_us = k->estimated_us;
        report.kernels.push_back(std::move(info));
        report.ops_fused += static_cast<int64_t>(k->ops.size());
      } else if (const auto* e = std::get_if<schedule::ExternStep>(&s)) {
        ++externs[{e->op->name, e->reason}];
        ++report.ops_extern;
      }
    }
  }
  for (const auto& [key, count] : externs) report.externs.push_back({key.first, key.second, count});
  report.distinct_kernels = static_cast<int64_t>(objects.size());
  for (const auto& [text, o] : objects) report.code_bytes += static_cast<int64_t>(o->bytes.size());
  report.arena_bytes = plan.arena.kept_bytes;
  report.early_arena_bytes = plan.arena.early_bytes;
  for (const schedule::Buffer& b : plan.buffers) {
    if (b.role == schedule::BufferRole::Derived) {
      report.packed_bytes += hint(graph::numel(b.type)) * element_size(b.type.dtype);
    }
  }
}

ObjectByText compile_kernels(const schedule::Plan& plan, const Target& target, const Options& options, const Dump& dump,
                             CompileReport& report) {
  ObjectByText objects;
  std::vector<codegen::Request> requests;
  for (const auto* steps : {&plan.derived, &plan.steps}) {
    for (const schedule::Step& s : *steps) {
      const auto* k = std::get_if<schedule::KernelStep>(&s);
      if (!k || objects.contains(k->text)) continue;
      objects.emplace(k->text, nullptr);
      std::string name = fmt::format("k{}", requests.size());
      for (const std::string& op : k->ops) {
        if (name.size() > 60) break;
        const size_t start = op.rfind(':') + 1;
        name += "_" + op.substr(start, op.find('.', start) - start);
      }
      requests.push_back({k->text, std::move(name)});
    }
  }
  codegen::CompileOptions o;
  o.workers = options.compile_threads;
  o.dump_dir = dump.folder();
  o.store = options.cache ? store::shared() : nullptr;
  const auto compiled = codegen::compile(requests, target, o);
  for (size_t i = 0; i < requests.size(); ++i) {
    objects[requests[i].text] = compiled.at(i).object;
    report.cached_kernels += compiled[i].origin == codegen::Origin::Store;
  }
  return objects;
}

void log_stages(const CompileReport& report) {
  if (!log::enabled(log::Topic::Stages)) return;
  std::string text = fmt::format("compiled {} ops in {:.2f} ms:", report.ops_traced, report.total_ms);
  for (const StageTime& s : report.stages) {
    if (s.ms >= 0.005) text += fmt::format(" {} {:.2f}", s.name, s.ms);
  }
  log::write(log::Topic::Stages, text);
}

}  // namespace

Result compile(std::unique_ptr<graph::Graph> graph, const Options& options, Traced traced, const Target& target) {
  Stopwatch total;
  Result result;
  CompileReport& report = result.report;
  report.ops_traced = traced.op_count ? traced.op_count : static_cast<int64_t>(graph->node_count());
  report.stages.push_back({"trace", traced.trace_ms});
  Dump dump(options);
  auto stage = [&](const char* name, auto&& body) {
    Stopwatch watch;
    body();
    report.stages.push_back({name, watch.milliseconds()});
  };

  dump.write_numbered("graph_traced.txt", dump.active() ? graph::print(*graph) : "");
  if (log::enabled(log::Topic::Graph)) log::write(log::Topic::Graph, "traced graph\n" + graph::print(*graph));
  if (verify_boundaries()) graph::verify(*graph);

  int64_t rewrites = 0;
  graph::PassContext context{options, traced.inference, {}};
  context.may_rewrite = [&] { return options.rewrite_limit < 0 || rewrites++ < options.rewrite_limit; };
  Stopwatch pass_watch;
  graph::run_passes(*graph, context, verify_boundaries(), [&](const graph::PassRow& row, bool before) {
    if (before) {
      pass_watch = Stopwatch();
      return;
    }
    report.stages.push_back({fmt::format("pass:{}", row.name), pass_watch.milliseconds()});
    if (dump.active()) dump.write_numbered(fmt::format("graph_{}.txt", row.name), graph::print(*graph));
  });
  if (log::enabled(log::Topic::Graph)) log::write(log::Topic::Graph, "graph after passes\n" + graph::print(*graph));

  schedule::Plan plan;
  stage("plan", [&] {
    schedule::Options o;
    o.target = target;
    o.kernels = codegen::available(target);
    plan = schedule::make_plan(*graph, o);
  });
  if (dump.active()) dump.write_numbered("plan.txt", schedule::print(plan));
  if (log::enabled(log::Topic::Plan)) log::write(log::Topic::Plan, schedule::print(plan));

  ObjectByText objects;
  stage("codegen", [&] { objects = compile_kernels(plan, target, options, dump, report); });
  if (log::enabled(log::Topic::Kernels)) {
    for (const auto& [text, o] : objects)
      log::write(log::Topic::Kernels, fmt::format("{} bytes of code\n{}", o->bytes.size(), text));
  }

  stage("assemble", [&] {
    artifact::Artifact artifact = assemble(*graph, plan, objects);
    artifact.facts = std::move(traced.facts);
    for (const artifact::Guard& g : artifact.guards) report.guards.push_back(g.text);
    if (dump.active()) dump.write_numbered("artifact.txt", artifact::print(artifact));
    result.executable = std::make_shared<const runtime::Executable>(std::move(artifact));
  });
  describe(plan, objects, report);
  report.total_ms = traced.trace_ms + total.milliseconds();
  log_stages(report);
  return result;
}

}  // namespace vesta::pipeline
