#include "cases.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "base/check.h"
#include "base/fault.h"
#include "graph_steps.h"
#include "machine/confine.h"
#include "pipeline/case.h"
#include "pipeline/case_keeper.h"
#include "pipeline/inspection.h"
#include "runtime/executable.h"

namespace py = pybind11;

namespace vesta::python {
namespace {

using pipeline::Case;
using pipeline::CaseInput;
using pipeline::Outcome;

// A recorded compile that was repeated.
struct Repeated {
  pipeline::Result result;

  py::list run(const std::vector<at::Tensor>& tensors, const std::vector<int64_t>& integers) const {
    std::vector<c10::IValue> outputs;
    {
      const torch::PyWarningHandler warnings;
      const py::gil_scoped_release release;
      if (std::string why; !result.executable->accepts(tensors, integers, &why))
        throw InternalError("the compiled graph does not take the inputs that its case describes: " + why);
      result.executable->run(tensors, integers, outputs);
    }
    py::list out;
    for (const c10::IValue& v : outputs) {
      if (v.isTensor()) {
        out.append(py::cast(v.toTensor()));
      } else if (v.isInt()) {
        out.append(v.toInt());
      } else {
        out.append(py::none());
      }
    }
    return out;
  }
};

Repeated repeat(const Case& c, const Options& options) {
  const py::gil_scoped_release release;
  return {pipeline::compile(pipeline::graph_of(c), options, pipeline::traced_of(c))};
}

pipeline::Inspection inspect(const Case& c, const Options& options) {
  const py::gil_scoped_release release;
  return pipeline::inspect(pipeline::graph_of(c), options, pipeline::traced_of(c));
}

Case case_of_graph(const std::string& text, const Options& options) {
  const std::unique_ptr<graph::Graph> graph = graph::parse(text);
  return pipeline::make_case(*graph, options, {}, pipeline::target_of(*graph));
}

const char* text_of(Outcome o) {
  return o == Outcome::Compiled ? "compiled" : o == Outcome::Failed ? "failed" : "unfinished";
}

void add_keeper(py::module_& m) {
  py::class_<pipeline::CaseKeeper, std::shared_ptr<pipeline::CaseKeeper>>(m, "CaseKeeper")
      .def(py::init([](std::string path, pipeline::Versions versions, bool only_failed, double slower_than_ms) {
             return pipeline::CaseKeeper::start(std::move(path), std::move(versions), {only_failed, slower_than_ms});
           }),
           py::arg("path"), py::arg("versions"), py::arg("only_failed") = false, py::arg("slower_than_ms") = -1.0)
      .def("stop", &pipeline::CaseKeeper::stop)
      .def("cases", &pipeline::CaseKeeper::cases, "The compiles that are kept, as texts.");
  m.def("join_cases", py::overload_cast<const pipeline::Versions&, const std::vector<std::string>&>(&pipeline::to_text),
        py::arg("versions"), py::arg("cases"), "The text of a file that has these compiles.");
}

}  // namespace

void add_cases(py::module_& m) {
  py::register_local_exception_translator([](std::exception_ptr error) {
    const auto set = [](const char* name, const std::exception& e) {
      py::set_error(py::module_::import("vesta.errors").attr(name), e.what());
    };
    try {
      std::rethrow_exception(error);
    } catch (const NeedsValue& e) {
      set("NeedsValue", e);
    } catch (const Unsupported& e) {
      set("Unsupported", e);
    } catch (const InternalError& e) {
      set("InternalError", e);
    }
  });
  add_keeper(m);
  py::class_<CaseInput>(m, "CaseInput")
      .def_readonly("name", &CaseInput::name)
      .def_property_readonly("dtype", [](const CaseInput& in) { return name(in.dtype); })
      .def_readonly("sizes", &CaseInput::sizes)
      .def_readonly("strides", &CaseInput::strides)
      .def_property_readonly("device", [](const CaseInput& in) { return to_string(in.device); })
      .def_readonly("alignment", &CaseInput::alignment)
      .def_readonly("offset", &CaseInput::offset)
      .def_readonly("same_as", &CaseInput::same_as)
      .def_property_readonly("conj", [](const CaseInput& in) { return in.conj_neg.conj; })
      .def_property_readonly("neg", [](const CaseInput& in) { return in.conj_neg.neg; });
  py::class_<Case>(m, "Case")
      .def(py::init(&case_of_graph), py::arg("graph"), py::arg("options"))
      .def_readonly("graph", &Case::graph)
      .def_readwrite("options", &Case::options)
      .def_readonly("inputs", &Case::inputs)
      .def_readonly("integers", &Case::integers)
      .def_readwrite("seed", &Case::seed)
      .def_readonly("deterministic", &Case::deterministic)
      .def_property_readonly("outcome", [](const Case& c) { return text_of(c.outcome); })
      .def_readonly("error_kind", &Case::error_kind)
      .def_readonly("error", &Case::error)
      .def_readonly("stages", &Case::stages)
      .def("text", py::overload_cast<const Case&>(&pipeline::to_text))
      .def("inspect", &inspect, py::arg("options"), "Runs passes and planner again.")
      .def("repeat", &repeat, py::arg("options"), "Compiles the graph again.");
  m.def(
      "parse_cases",
      [](const std::string& text) {
        pipeline::CaseFile file = pipeline::parse_cases(text);
        return py::make_tuple(std::move(file.versions), std::move(file.cases));
      },
      py::arg("text"), "The versions and the compiles of a file that a CaseKeeper wrote.");
  py::class_<pipeline::InspectedKernel>(m, "InspectedKernel")
      .def_readonly("name", &pipeline::InspectedKernel::name)
      .def_readonly("graph", &pipeline::InspectedKernel::graph)
      .def_readonly("inputs", &pipeline::InspectedKernel::inputs)
      .def_readonly("outputs", &pipeline::InspectedKernel::outputs);
  py::class_<pipeline::Inspection>(m, "Inspection")
      .def_readonly("graph", &pipeline::Inspection::graph)
      .def_readonly("plan", &pipeline::Inspection::plan)
      .def_readonly("kernels", &pipeline::Inspection::kernels);
  py::class_<Repeated>(m, "Repeated")
      .def_property_readonly("report", [](const Repeated& r) { return r.result.report; })
      .def("run", &Repeated::run, py::arg("tensors"), py::arg("integers"));
  m.def("graph_steps", &graph_steps, py::arg("text"), "The statements of a graph for the hints of its sizes.");
  m.def("confine", &machine::confine,
        "Takes network and write access from the calling thread for ever; what the kernel cannot refuse.");
  m.def("spoil", &fault::spoil, py::arg("stage"), py::arg("wrong") = true,
        "For tests: a pass (\"pass:views\") or a kernel (\"kernel:exp_silu\") gives wrong results from now on.");
}

}  // namespace vesta::python
