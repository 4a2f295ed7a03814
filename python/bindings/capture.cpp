// Binds the native capture of Python code and its reports.
#include "capture.h"

#include <pybind11/stl.h>

#include <tuple>

#include "base/stopwatch.h"
#include "capture/entry/weight_packing.h"
#include "capture/python/breaks/breaks.h"
#include "capture/python/frame/frame.h"
#include "capture/python/frame/signals.h"
#include "capture/python/functions/functions.h"
#include "capture/python/functions/python_functions.h"
#include "capture/python/gil/gil_hold.h"
#include "capture/python/package.h"
#include "capture/python/segments/captured.h"
#include "capture/python/tensors/distributed.h"
#include "capture/python/tensors/run.h"
#include "capture/python/tracer/module_items.h"
#include "capture/python/wrapper/captured_function.h"
#include "interruptible.h"

namespace py = pybind11;

namespace vesta::python {
namespace {

using NamedModules = std::vector<std::pair<py::object, std::string>>;

capture::ChosenModules::Named named(const NamedModules& given) {
  capture::ChosenModules::Named out;
  for (const auto& [module, name] : given) out.emplace_back(capture::Object::share(module.ptr()), name);
  return out;
}

PyObject* look_up(capture::PackageObject which) {
  using enum capture::PackageObject;
  auto find = [](const char* module, const char* name) {
    return py::getattr(py::module_::import(module), name).release().ptr();
  };
  try {
    switch (which) {
      case ErrorClass: return find("vesta.errors", "Error");
      case MakeGraphBreak: return find("vesta.errors", "_graph_break");
      case MakeStrictError: return find("vesta.errors", "_strict");
      case MakeRecompileError: return find("vesta.errors", "_recompile");
      case WriteTorchLog: return find("vesta.torch_logs", "write");
    }
  } catch (py::error_already_set& e) {
    e.restore();
  }
  return nullptr;
}

}  // namespace

void add_capture(py::module_& m) {
  capture::find_stack_limit();
  m.def("_graph_breaks", [] {
    std::vector<std::tuple<std::string, std::string, std::string, std::string>> rows;
    for (const capture::BreakRow& r : capture::break_rows()) rows.emplace_back(r.name, r.text, r.why, r.hint);
    return rows;
  });
  py::class_<UserLine>(m, "UserLine")
      .def_readonly("file", &UserLine::file)
      .def_readonly("line", &UserLine::line)
      .def_readonly("function", &UserLine::function);
  py::class_<CaptureGuard>(m, "CaptureGuard")
      .def_readonly("kind", &CaptureGuard::kind)
      .def_readonly("text", &CaptureGuard::text)
      .def_readonly("where", &CaptureGuard::where)
      .def_readonly("failed", &CaptureGuard::failed);
  py::class_<CaptureBreak>(m, "CaptureBreak")
      .def_readonly("where", &CaptureBreak::where)
      .def_readonly("stack", &CaptureBreak::stack)
      .def_readonly("instruction", &CaptureBreak::instruction)
      .def_readonly("name", &CaptureBreak::name)
      .def_readonly("reason", &CaptureBreak::reason)
      .def_readonly("hint", &CaptureBreak::hint)
      .def_readonly("count", &CaptureBreak::count);
  py::class_<OpCount>(m, "OpCount").def_readonly("op", &OpCount::op).def_readonly("count", &OpCount::count);
  py::class_<StepInfo>(m, "StepInfo")
      .def_readonly("name", &StepInfo::name)
      .def_readonly("is_kernel", &StepInfo::is_kernel)
      .def_readonly("ops", &StepInfo::ops)
      .def_readonly("dtype", &StepInfo::dtype)
      .def_readonly("source", &StepInfo::source)
      .def_readonly("after", &StepInfo::after)
      .def_readonly("bytes", &StepInfo::bytes)
      .def_readonly("flops", &StepInfo::flops)
      .def_readonly("estimated_us", &StepInfo::estimated_us)
      .def_readonly("arena_bytes", &StepInfo::arena_bytes)
      .def_readonly("held_bytes", &StepInfo::held_bytes);
  py::class_<SavedTensorInfo>(m, "SavedTensorInfo")
      .def_readonly("op", &SavedTensorInfo::op)
      .def_readonly("source", &SavedTensorInfo::source)
      .def_readonly("why", &SavedTensorInfo::why)
      .def_readonly("bytes", &SavedTensorInfo::bytes);
  py::class_<ComputedAgain>(m, "ComputedAgain")
      .def_readonly("op", &ComputedAgain::op)
      .def_readonly("source", &ComputedAgain::source);
  py::class_<ActivationReport>(m, "ActivationReport")
      .def(py::init<>())
      .def_readonly("saved_bytes", &ActivationReport::saved_bytes)
      .def_readonly("eager_saved_bytes", &ActivationReport::eager_saved_bytes)
      .def_readonly("limit", &ActivationReport::limit)
      .def_property_readonly("is_reached", &ActivationReport::is_reached)
      .def_readonly("saved", &ActivationReport::saved)
      .def_readonly("again", &ActivationReport::again)
      .def_readonly("load_us", &ActivationReport::load_us)
      .def_readonly("again_us", &ActivationReport::again_us)
      .def_readonly("eager_load_us", &ActivationReport::eager_load_us);
  py::class_<CaptureVariant>(m, "CaptureVariant")
      .def_readonly("id", &CaptureVariant::id)
      .def_readonly("ops", &CaptureVariant::ops)
      .def_readonly("compiled", &CaptureVariant::compiled)
      .def_readonly("backward", &CaptureVariant::backward)
      .def_readonly("backward_failures", &CaptureVariant::backward_failures)
      .def_readonly("activations", &CaptureVariant::activations)
      .def_readonly("trains", &CaptureVariant::trains)
      .def_readonly("pending", &CaptureVariant::pending)
      .def_readonly("tier", &CaptureVariant::tier)
      .def_readonly("early_hits", &CaptureVariant::early_hits)
      .def_readonly("python_us", &CaptureVariant::python_us)
      .def_readonly("early_us", &CaptureVariant::early_us)
      .def_readonly("guards", &CaptureVariant::guards)
      .def_readonly("effects", &CaptureVariant::effects)
      .def_readonly("end", &CaptureVariant::end)
      .def_readonly("stop", &CaptureVariant::stop)
      .def_readonly("steps", &CaptureVariant::steps)
      .def_readonly("outputs", &CaptureVariant::outputs)
      .def_readonly("output_bytes", &CaptureVariant::output_bytes)
      .def_readonly("stages", &CaptureVariant::stages)
      .def_readonly("total_ms", &CaptureVariant::total_ms)
      .def_readonly("hits", &CaptureVariant::hits);
  py::class_<CaptureSegment>(m, "CaptureSegment")
      .def_readonly("where", &CaptureSegment::where)
      .def_readonly("offset", &CaptureSegment::offset)
      .def_readonly("variants", &CaptureSegment::variants)
      .def_readonly("skipped", &CaptureSegment::skipped)
      .def_readonly("slower", &CaptureSegment::slower)
      .def_readonly("uncompiled", &CaptureSegment::uncompiled)
      .def_readonly("rest_slower", &CaptureSegment::rest_slower)
      .def_readonly("rest_uncompiled", &CaptureSegment::rest_uncompiled)
      .def_readonly("failures", &CaptureSegment::failures)
      .def_readonly("skipped_name", &CaptureSegment::skipped_name);
  py::class_<CaptureRecompile>(m, "CaptureRecompile")
      .def_readonly("segment", &CaptureRecompile::segment)
      .def_readonly("guard", &CaptureRecompile::guard)
      .def_readonly("was", &CaptureRecompile::was)
      .def_readonly("now", &CaptureRecompile::now)
      .def_readonly("where", &CaptureRecompile::where)
      .def_readonly("ms", &CaptureRecompile::ms);
  py::class_<CaptureReport>(m, "CaptureReport")
      .def_readonly("name", &CaptureReport::name)
      .def_readonly("where", &CaptureReport::where)
      .def_readonly("only", &CaptureReport::only)
      .def_readonly("segments", &CaptureReport::segments)
      .def_readonly("recompiles", &CaptureReport::recompiles)
      .def_readonly("fallbacks", &CaptureReport::fallbacks)
      .def_readonly("calls", &CaptureReport::calls)
      .def_readonly("call_us", &CaptureReport::call_us)
      .def_readonly("aside", &CaptureReport::aside)
      .def_readonly("hits", &CaptureReport::hits)
      .def_readonly("misses", &CaptureReport::misses);
  py::class_<capture::WarmUp>(m, "WarmUp")
      .def_readonly("ready", &capture::WarmUp::ready)
      .def_readonly("is_new", &capture::WarmUp::is_new)
      .def_readonly("eager", &capture::WarmUp::eager)
      .def_readonly("packed_bytes", &capture::WarmUp::packed_bytes)
      .def_readonly("stop", &capture::WarmUp::stop);
  // torch imports its classes of symbolic numbers at the first question. That import must not happen in a trace, where
  // it fails if the error of an operator is set, so it happens here.
  capture::is_symbolic(Py_None);
  capture::set_package_lookup(look_up);
  capture::set_frees_parameters(capture::is_distributed);
  m.def(
      "is_getattr_of_modules", [](const py::object& f) { return capture::is_getattr_of_modules(f.ptr()); },
      py::arg("function"), "True if a trace knows this function as torch.nn.Module.__getattr__ and need not run it.");
  if (capture::add_captured_function(m.ptr()) < 0) throw py::error_already_set();
  capture::install_gil_hold();
  interrupt::set(&capture::has_signal);
  m.def(
      "capture",
      [](const py::object& callable, Options options, std::string name, bool fullgraph, const NamedModules& only,
         const NamedModules& skip) {
        PyObject* out = capture::make_captured(callable.ptr(), std::move(options), std::move(name), fullgraph,
                                               {named(only), named(skip)});
        if (!out) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(out);
      },
      py::arg("callable"), py::arg("options"), py::arg("name"), py::arg("fullgraph"), py::arg("only") = NamedModules(),
      py::arg("skip") = NamedModules(),
      "A CapturedFunction: called like `callable`, it captures and compiles what it can.");
  m.def(
      "call_by_slot",
      [](const py::type& cls) { capture::call_objects_by_slot(reinterpret_cast<PyTypeObject*>(cls.ptr())); },
      py::arg("cls"), "The interpreter calls objects of `cls` by what their slot `_vesta_call` holds.");
  // A C class takes no attributes, so the method goes into the class's own dict.
  auto* type = reinterpret_cast<PyTypeObject*>(m.attr("CapturedFunction").ptr());
  const py::object report(
      py::cpp_function([](const py::object& self) { return capture::captured_of(self.ptr()).report(); },
                       py::name("report"), py::is_method(m.attr("CapturedFunction"))));
  const py::object wait(py::cpp_function(
      [](const py::object& self, double seconds, int tier) {
        const auto& captured = capture::captured_of(self.ptr());
        return wait_or_raise(seconds, [&](auto end) { return captured.wait(end, tier); });
      },
      py::name("wait"), py::is_method(m.attr("CapturedFunction")), py::arg("seconds") = -1.0, py::arg("tier") = 2));
  const py::object warm_up(py::cpp_function(
      [](const py::object& self, const py::tuple& args, const py::dict& keywords, double seconds, bool runs) {
        capture::WarmUp out;
        out.end = end_after(seconds);
        out.runs = runs;
        if (!capture::warm_up(self.ptr(), args.ptr(), keywords.ptr(), out)) throw py::error_already_set();
        return out;
      },
      py::name("warm_up"), py::is_method(m.attr("CapturedFunction")), py::arg("args"), py::arg("keywords"),
      py::arg("seconds"), py::arg("runs") = false));
  for (const auto& [name, method] :
       {std::pair("report", report), std::pair("wait", wait), std::pair("warm_up", warm_up)})
    if (PyDict_SetItemString(type->tp_dict, name, method.ptr()) < 0) throw py::error_already_set();
  PyType_Modified(type);
}

}  // namespace vesta::python
