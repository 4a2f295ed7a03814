// From a traced graph to a compiled one, on a thread of the pipeline's, and with gradients through vesta.training.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "base/stage_clock.h"
#include "capture/python/package.h"
#include "capture/python/tensors/run.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/torch_logs.h"
#include "graph/copy.h"
#include "graph/device.h"
#include "graph/graph.h"
#include "pipeline/backward.h"
#include "runtime/differentiable.h"
#include "trace/gradients/history_cuts.h"
#include "trace/trace.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::capture {

namespace {
TapeMaker make_tape = nullptr;
}  // namespace

void set_tape_maker(TapeMaker maker) { make_tape = maker; }

// A run with a shorter estimate keeps the GIL: other threads wait for less time than releasing it would cost.
constexpr double kBriefUs = 5;

static void set_compiled(CompiledGraph& out, pipeline::Result result) {
  out.executable = std::move(result.executable);
  if (out.training) out.training->forward = out.executable;
  out.report = std::move(result.report);
  out.calls_aten = out.report.ops_extern > 0;
  double us = 0;
  for (const KernelInfo& k : out.report.kernels) us += k.estimated_us;
  out.is_brief = !out.calls_aten && us < kBriefUs && out.executable->artifact().is_static;
}

bool wait_for_compile(const CompiledGraph& graph, std::chrono::steady_clock::time_point end) {
  if (const std::shared_ptr<pipeline::Background> pending = graph.pending) {
    const py::gil_scoped_release release;
    if (!pending->is_lost() && !pending->wait_until(end)) return false;
  }
  {
    const py::gil_scoped_release release;
    for (const auto& half : graph.backward)
      if (!half->wait_until(end)) return false;
  }
  if (!graph.differentiable) return true;
  const auto program = py::reinterpret_borrow<py::object>(graph.differentiable.get());
  const std::chrono::duration<double> left = end - std::chrono::steady_clock::now();
  return program.attr("wait")(std::max(0.0, left.count())).cast<bool>();
}

bool is_lost(const CompiledGraph& graph) { return graph.pending && graph.pending->is_lost(); }

bool finish_compile(CompiledGraph& graph) {
  if (!graph.pending->is_done()) return false;
  graph.early.reset();
  set_compiled(graph, graph.pending->take());
  graph.pending.reset();
  return true;
}

bool finish_early(CompiledGraph& graph) {
  if (!graph.early) return false;
  try {
    return !graph.early->pending || finish_compile(*graph.early);
  } catch (const std::exception& e) {
    log::write(log::Topic::Fallbacks, std::string("no calls into ATen until the compile has ended: ") + e.what());
    graph.early.reset();
    return false;
  }
}

CompiledGraph compile_graph(TracedGraph graph, const Options& options, double trace_ms,
                            std::chrono::steady_clock::time_point end) {
  trace::Traced& traced = *graph.traced;
  pipeline::Traced facts;
  facts.facts = {std::move(traced.same_inputs), std::move(traced.storage_offsets), std::move(traced.conj_neg)};
  facts.op_count = traced.op_count;
  facts.trace_ms = trace_ms;
  facts.frames = graph.frames;
  facts.may_choose = true;
  facts.inference = !traced.tape && !traced.joint;
  facts.deterministic = at::globalContext().deterministicAlgorithms();
  const bool as_it_is = traced.tape && !trace::cuts_history(*traced.tape, traced.inputs);
  if (traced.joint && traced.tape && !as_it_is) {
    // Its gradients may be asked for gradients, which only the tape can give.
    traced.joint->parts.clear();
    traced.graph = graph::split(std::move(traced.graph), *traced.joint, {}).forward;
    traced.joint.reset();
    traced.no_joint = "it detaches a tensor that requires a gradient";
  }
  CompiledGraph out;
  out.in_grad_mode = graph.in_grad_mode;
  out.on_gpu = graph::first_device(*traced.graph, DeviceType::CUDA).has_value();
  out.views = std::move(traced.views);
  if (traced.tape && !traced.joint) {
    out.trains = true;
    out.tape = std::move(traced.tape);
    out.options = std::make_shared<const Options>(options);
  }
  if (!traced.no_joint.empty())
    log::write(log::Topic::Fallbacks, "the backward pass goes through AOTAutograd: " + traced.no_joint);
  std::unique_ptr<graph::Graph> main = std::move(traced.graph);
  if (is_on(TorchLog::GraphCode)) write(TorchLog::GraphCode, "Traced graph\n" + graph::print(*main));
  if (traced.joint) {
    out.trains = true;
    const py::gil_scoped_release release;
    pipeline::Training training = pipeline::split_training(std::move(main), *traced.joint, options, facts, as_it_is);
    out.training = std::move(training.program);
    out.backward = std::move(training.backward);
    main = std::move(training.forward);
  }
  const bool may_have_early = options.kernels && !out.on_gpu && !out.trains;
  {
    const py::gil_scoped_release release;
    std::unique_ptr<graph::Graph> copy = may_have_early ? graph::copy(*main) : nullptr;
    pipeline::Traced same = facts;
    out.pending = pipeline::start_compile(std::move(main), options, std::move(facts), end);
    if (copy && !out.pending->is_done()) {
      out.early = std::make_shared<CompiledGraph>();
      out.early->in_grad_mode = out.in_grad_mode;
      out.early->views = out.views;
      out.early->pending = pipeline::start_without_kernels(std::move(copy), options, std::move(same));
    }
  }
  finish_compile(out);
  return out;
}

double make_differentiable(CompiledGraph& graph, std::span<PyObject* const> tensors,
                           const std::vector<int64_t>& integers) {
  const StageClock clock("aot_autograd");
  fault::reached("gradients");
  const at::AutoGradMode on(true);  // the tape says where the program records no gradients
  py::list examples;
  for (PyObject* t : tensors) examples.append(py::reinterpret_borrow<py::object>(t));
  for (const int64_t v : integers) examples.append(v);
  try {
    const auto tape = py::reinterpret_steal<py::object>(make_tape(graph.tape));
    const Object compile = package_object(PackageObject::CompileWithGradients);
    if (!compile) throw py::error_already_set();
    Object made = Object::take(py::handle(compile.get())(tape, examples, *graph.options).release().ptr());
    if (!graph.differentiable) graph.differentiable = std::move(made);  // another thread may run the one it has made
  } catch (py::error_already_set& e) {
    throw Unsupported(e.what());
  }
  graph.tape.reset();
  return clock.milliseconds();
}

}  // namespace vesta::capture
