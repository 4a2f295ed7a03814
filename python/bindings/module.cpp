// The module vesta._C: options, reports and compiled functions as Python objects.
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "account.h"
#include "base/fault.h"
#include "capture.h"
#include "cases.h"
#include "compiled.h"
#include "counted_bytes.h"
#include "evaluator.h"
#include "graph/passes/passes.h"
#include "graph_steps.h"
#include "interruptible.h"
#include "pipeline/background.h"
#include "pipeline/pipeline.h"
#include "pipeline/strategy.h"
#include "program.h"
#include "store.h"
#include "vesta/passes.h"

namespace py = pybind11;

namespace vesta::python {
namespace {

// What happens at a place where tests inject a fault of this kind; "none": nullptr.
std::function<void(std::string_view)> fault_of(const std::string& kind, double seconds) {
  static std::atomic<int64_t> asked{0};
  const int64_t now = ++asked;
  if (kind == "none") return nullptr;
  if (kind == "hold")
    return [now, end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)](std::string_view) {
      while (asked == now && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
  if (kind == "delay")
    return [seconds](std::string_view) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  if (kind == "throw")
    return [](std::string_view stage) {
      throw InternalError("a fault was injected into the stage " + std::string(stage));
    };
  if (kind == "memory") return [](std::string_view) { throw std::bad_alloc(); };
  if (kind == "crash") return [](std::string_view) { std::abort(); };
  throw py::value_error("the faults are none, hold, delay, throw, memory and crash, not " + kind);
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "Vesta's compiler. Use the package `vesta`.";

  py::class_<Options>(m, "Options")
      .def(py::init<>())
      .def("__copy__", [](const Options& o) { return o; })
      .def_readwrite("dynamic", &Options::dynamic)
      .def_readwrite("strict", &Options::strict)
      .def_readwrite("deadline_ms", &Options::deadline_ms)
      .def_readwrite("compile_memory", &Options::compile_memory)
      .def_readwrite("background", &Options::background)
      .def_readwrite("strategy", &Options::strategy)
      .def_readwrite("expected_calls", &Options::expected_calls)
      .def_readwrite("only_if_faster", &Options::only_if_faster)
      .def_readwrite("recompile_share", &Options::recompile_share)
      .def_readwrite("packed_weights", &Options::packed_weights)
      .def_readwrite("kernels", &Options::kernels)
      .def_readwrite("numerics", &Options::numerics)
      .def_readwrite("variant_limit", &Options::variant_limit)
      .def_readwrite("skip_passes", &Options::skip_passes)
      .def_readwrite("rewrite_limit", &Options::rewrite_limit)
      .def_readwrite("compile_threads", &Options::compile_threads)
      .def_readwrite("cuda_graphs", &Options::cuda_graphs)
      .def_readwrite("activation_memory", &Options::activation_memory)
      .def_readwrite("copied_inputs", &Options::copied_inputs)
      .def_readwrite("cuda_graph_memory", &Options::cuda_graph_memory)
      .def_readwrite("autotune_seconds", &Options::autotune_seconds)
      .def_readwrite("cache", &Options::cache)
      .def_readwrite("dump_dir", &Options::dump_dir);

  py::class_<ArgumentInfo>(m, "ArgumentInfo")
      .def(py::init([](std::string name, bool parameter, std::vector<bool> dynamic, std::vector<int> label) {
             return ArgumentInfo{std::move(name), parameter, std::move(dynamic), std::move(label)};
           }),
           py::arg("name"), py::arg("parameter") = false, py::arg("dynamic") = std::vector<bool>(),
           py::arg("label") = std::vector<int>());

  py::class_<StageTime>(m, "StageTime").def_readonly("name", &StageTime::name).def_readonly("ms", &StageTime::ms);
  py::class_<ExternReason>(m, "ExternReason")
      .def_readonly("op", &ExternReason::op)
      .def_readonly("reason", &ExternReason::reason)
      .def_readonly("count", &ExternReason::count);
  py::class_<KernelInfo>(m, "KernelInfo")
      .def_readonly("name", &KernelInfo::name)
      .def_readonly("ops", &KernelInfo::ops)
      .def_readonly("bytes", &KernelInfo::bytes)
      .def_readonly("estimated_us", &KernelInfo::estimated_us);
  py::class_<GraphReport>(m, "GraphReport")
      .def_readonly("recorded", &GraphReport::recorded)
      .def_readonly("kept", &GraphReport::kept)
      .def_readonly("graphs", &GraphReport::graphs)
      .def_readonly("nodes", &GraphReport::nodes)
      .def_readonly("bytes", &GraphReport::bytes)
      .def_readonly("record_ms", &GraphReport::record_ms)
      .def_readonly("direct", &GraphReport::direct)
      .def_readonly("why_none", &GraphReport::why_none)
      .def("__str__", [](const GraphReport& r) { return to_string(r); });
  py::class_<TuningReport>(m, "TuningReport")
      .def_readonly("kernels", &TuningReport::kernels)
      .def_readonly("known", &TuningReport::known)
      .def_readonly("measured", &TuningReport::measured)
      .def_readonly("left", &TuningReport::left)
      .def_readonly("schedules", &TuningReport::schedules)
      .def_readonly("changed", &TuningReport::changed)
      .def_readonly("seconds", &TuningReport::seconds)
      .def_readonly("before_us", &TuningReport::before_us)
      .def_readonly("after_us", &TuningReport::after_us)
      .def_readonly("why_none", &TuningReport::why_none)
      .def("__str__", [](const TuningReport& r) { return to_string(r); });
  py::class_<StrategyReport>(m, "StrategyReport")
      .def_readonly("chosen", &StrategyReport::chosen)
      .def_readonly("expected_calls", &StrategyReport::expected_calls)
      .def_readonly("eager_us", &StrategyReport::eager_us)
      .def_readonly("calls_us", &StrategyReport::calls_us)
      .def_readonly("whole_us", &StrategyReport::whole_us)
      .def_readonly("calls_ms", &StrategyReport::calls_ms)
      .def_readonly("whole_ms", &StrategyReport::whole_ms)
      .def("__str__", [](const StrategyReport& r) { return pipeline::to_string(r); });
  using pipeline::MachineCosts;
  py::class_<MachineCosts>(m, "MachineCosts")
      .def(py::init<>())
      .def_readwrite("python_us", &MachineCosts::python_us)
      .def_readwrite("frame_us", &MachineCosts::frame_us)
      .def_readwrite("saved_us", &MachineCosts::saved_us)
      .def_readwrite("call_us", &MachineCosts::call_us)
      .def_readwrite("entry_us", &MachineCosts::entry_us)
      .def_readwrite("step_us", &MachineCosts::step_us)
      .def_readwrite("kernel_factor", &MachineCosts::kernel_factor)
      .def_readwrite("product_factor", &MachineCosts::product_factor)
      .def_readwrite("linear_us", &MachineCosts::linear_us)
      .def_readwrite("packed_linear_us", &MachineCosts::packed_linear_us)
      .def_readwrite("attention_us", &MachineCosts::attention_us)
      .def_readwrite("convolution_us", &MachineCosts::convolution_us)
      .def_readwrite("packed_convolution_us", &MachineCosts::packed_convolution_us)
      .def_readwrite("recurrent_us", &MachineCosts::recurrent_us)
      .def_readwrite("bag_us", &MachineCosts::bag_us)
      .def_readwrite("index_us", &MachineCosts::index_us)
      .def_readwrite("bytes_per_us", &MachineCosts::bytes_per_us)
      .def_readwrite("memory_bytes_us", &MachineCosts::memory_bytes_us)
      .def_readwrite("last_cache_bytes", &MachineCosts::last_cache_bytes)
      .def_readwrite("linear_flops_us", &MachineCosts::linear_flops_us)
      .def_readwrite("packed_linear_flops_us", &MachineCosts::packed_linear_flops_us)
      .def_readwrite("convolution_flops_us", &MachineCosts::convolution_flops_us)
      .def_readwrite("packed_convolution_flops_us", &MachineCosts::packed_convolution_flops_us)
      .def_readwrite("recurrent_flops_us", &MachineCosts::recurrent_flops_us)
      .def_readwrite("convolution_weights_us", &MachineCosts::convolution_weights_us)
      .def_readwrite("trace_us", &MachineCosts::trace_us)
      .def_readwrite("plan_us", &MachineCosts::plan_us)
      .def_readwrite("codegen_us", &MachineCosts::codegen_us)
      .def_readwrite("code_us", &MachineCosts::code_us);
  m.def("machine_costs", &pipeline::machine_costs, "What the option strategy=\"auto\" predicts with.");
  m.def("set_machine_costs", &pipeline::set_machine_costs, py::arg("costs"));
  py::class_<CompileReport>(m, "CompileReport")
      .def_readonly("ops_traced", &CompileReport::ops_traced)
      .def_readonly("ops_fused", &CompileReport::ops_fused)
      .def_readonly("ops_extern", &CompileReport::ops_extern)
      .def_readonly("externs", &CompileReport::externs)
      .def_readonly("kernels", &CompileReport::kernels)
      .def_readonly("layers", &CompileReport::layers)
      .def_readonly("distinct_kernels", &CompileReport::distinct_kernels)
      .def_readonly("cached_kernels", &CompileReport::cached_kernels)
      .def_readonly("cached", &CompileReport::cached)
      .def_property_readonly("entry", [](const CompileReport& r) { return r.key ? r.key->entry : std::string(); })
      .def(
          "why_miss", [](const CompileReport& r, const std::string& folder) { return why_miss(r, folder); },
          py::arg("folder"),
          "The nearest entry of a cache, and (field, was, now, line) of each difference; None: there is none.")
      .def_readonly("code_bytes", &CompileReport::code_bytes)
      .def_readonly("arena_bytes", &CompileReport::arena_bytes)
      .def_readonly("early_arena_bytes", &CompileReport::early_arena_bytes)
      .def_readonly("packed_bytes", &CompileReport::packed_bytes)
      .def_readonly("graph_memory", &CompileReport::graph_memory)
      .def_readonly("plan_memory", &CompileReport::plan_memory)
      .def_readonly("kernel_memory", &CompileReport::kernel_memory)
      .def_readonly("stages", &CompileReport::stages)
      .def_readonly("guards", &CompileReport::guards)
      .def_readonly("total_ms", &CompileReport::total_ms)
      .def_readonly("graphs", &CompileReport::graphs)
      .def_readonly("strategy", &CompileReport::strategy)
      .def_readonly("tuning", &CompileReport::tuning);
  py::class_<Fallback>(m, "Fallback").def_readonly("reason", &Fallback::reason).def_readonly("count", &Fallback::count);
  py::class_<FunctionReport>(m, "FunctionReport")
      .def_readonly("name", &FunctionReport::name)
      .def_readonly("variants", &FunctionReport::variants)
      .def_readonly("fallbacks", &FunctionReport::fallbacks)
      .def_readonly("hits", &FunctionReport::hits)
      .def_readonly("misses", &FunctionReport::misses)
      .def_readonly("recompiles", &FunctionReport::recompiles)
      .def_readonly("failures", &FunctionReport::failures)
      .def("__str__", [](const FunctionReport& r) { return to_string(r); });
  m.def("reports", &reports, "One FunctionReport for each compiled function that still exists.");
  m.def(
      "wait",
      [](double seconds) {
        return wait_or_raise(seconds, [](auto end) {
          const py::gil_scoped_release release;
          return pipeline::wait_for_compiles(end);
        });
      },
      py::arg("seconds") = -1.0, "Waits for all compiles in the background; False: time ran out.");
  m.def(
      "inject_fault",
      [](const std::string& stage, const std::string& kind, double seconds) {
        const auto at = fault_of(kind, seconds);
        fault::inject(stage, at ? [at, stage] { at(stage); } : std::function<void()>());
      },
      py::arg("stage"), py::arg("kind"), py::arg("seconds") = 0.0,
      "For tests: from now on the stage of each compile waits (delay; hold: at most so long, and until the next "
      "inject_fault), fails (throw), has no memory (memory), or the process ends (crash).");
  m.def(
      "inject_fault_at",
      [](size_t n, const std::string& kind, double seconds) { fault::inject_at(n, fault_of(kind, seconds)); },
      py::arg("n"), py::arg("kind"), py::arg("seconds") = 0.0,
      "For tests: the place that is reached as the n-th from now on, of any stage, has this fault (see inject_fault).");
  m.def("stages_reached", &fault::reached_since,
        "For tests: the stages reached since the last inject_fault_at, the one with the fault at its place.");
  m.def("passes", &passes, "Names of the graph passes, in the order in which they run.");

  pipeline::prepare();
  add_compiled_function(m);
  add_capture(m);
  if (add_evaluator(m.ptr()) < 0) throw py::error_already_set();
  add_program(m);
  add_store(m);
  m.def("may_raise", [](const std::string& op) { return graph::may_raise(op); }, py::arg("op"));
  add_graph_value(m);
  add_cases(m);
  add_account(m);
  add_counted_bytes(m);
}

}  // namespace vesta::python
