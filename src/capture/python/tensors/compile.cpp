#include "capture/python/tensors/compile.h"

#include <ATen/Context.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "base/log.h"
#include "capture/entry/weight_packing.h"
#include "capture/python/torch_logs.h"
#include "graph/copy.h"
#include "graph/device.h"
#include "graph/graph.h"
#include "pipeline/backward.h"
#include "runtime/differentiable.h"
#include "trace/trace.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::capture {

// A run with a shorter estimate keeps the GIL: other threads wait for less time than releasing it would cost.
constexpr double kBriefUs = 5;

static void set_compiled(CompiledGraph& out, pipeline::Result result) {
  out.executable = std::move(result.executable);
  out.training = std::move(result.training);
  out.backward = std::move(result.backward);
  out.report = std::move(result.report);
  out.calls_aten = out.report.ops_extern > 0;
  double us = 0;
  for (const KernelInfo& k : out.report.kernels) us += k.estimated_us;
  out.is_brief = !out.calls_aten && us < kBriefUs && out.executable->artifact().is_static;
}

// Those of the DistributedDataParallel in whose forward pass the thread is.
static pipeline::Buckets buckets_in_use() {
  constexpr int64_t kFirst = 1 << 20;  // torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch.nn.parallel.distributed");
  const Object cls = module ? Object::take(PyObject_GetAttrString(module, "DistributedDataParallel")) : Object();
  const Object ddp = cls ? Object::take(PyObject_GetAttrString(cls.get(), "_active_ddp_module")) : Object();
  const Object bytes =
      ddp && ddp.get() != Py_None ? Object::take(PyObject_GetAttrString(ddp.get(), "bucket_bytes_cap")) : Object();
  const int64_t n = bytes && PyLong_Check(bytes.get()) ? PyLong_AsLongLong(bytes.get()) : 0;
  PyErr_Clear();
  return n > 0 ? pipeline::Buckets{std::min(kFirst, n), n} : pipeline::Buckets{};
}

bool wait_for_compile(const CompiledGraph& graph, std::chrono::steady_clock::time_point end) {
  if (const std::shared_ptr<pipeline::Background> pending = graph.pending) {
    const py::gil_scoped_release release;
    return pending->is_lost() || pending->wait_until(end);
  }
  return true;
}

bool wait_for_backward(const CompiledGraph& graph, std::chrono::steady_clock::time_point end) {
  const auto halves = graph.backward;  // the graph may change while this thread is without the GIL
  const auto packing = graph.packing;
  const py::gil_scoped_release release;
  return std::ranges::all_of(halves, [&](const auto& half) { return half->wait_until(end); }) &&
         (!packing || packing->wait_until(end));
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
  facts.eager_us = graph.eager_us;
  facts.may_choose = true;
  facts.inference = !traced.joint;
  facts.deterministic = at::globalContext().deterministicAlgorithms();
  CompiledGraph out;
  out.in_grad_mode = graph.in_grad_mode;
  out.on_gpu = graph::first_device(*traced.graph, DeviceType::CUDA).has_value();
  out.views = std::move(traced.views);
  out.trains = traced.joint.has_value();
  out.packing = std::make_shared<WeightPacking>(options);
  if (is_on(TorchLog::GraphCode)) write(TorchLog::GraphCode, "Traced graph\n" + graph::print(*traced.graph));
  if (out.trains) {
    pipeline::JointProgram program{.graph = std::move(traced.graph),
                                   .joint = *std::move(traced.joint),
                                   .unseen_writes = std::move(traced.unseen_writes),
                                   .buckets = buckets_in_use()};
    const py::gil_scoped_release release;
    out.pending = pipeline::start_training(std::move(program), options, std::move(facts), end);
  } else {
    out.unseen_writes = std::move(traced.unseen_writes);
    const bool may_have_early = options.kernels && !out.on_gpu;
    const py::gil_scoped_release release;
    std::unique_ptr<graph::Graph> copy = may_have_early ? graph::copy(*traced.graph) : nullptr;
    pipeline::Traced same = facts;
    out.pending = pipeline::start_compile(std::move(traced.graph), options, std::move(facts), end);
    if (copy && !out.pending->is_done()) {
      out.early = std::make_shared<CompiledGraph>();
      out.early->in_grad_mode = out.in_grad_mode;
      out.early->views = out.views;
      out.early->unseen_writes = out.unseen_writes;
      out.early->packing = std::make_shared<WeightPacking>(options);
      out.early->pending = pipeline::start_without_kernels(std::move(copy), options, std::move(same));
    }
  }
  finish_compile(out);
  return out;
}

}  // namespace vesta::capture
