#include "program.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "capture/python/saving/saver.h"
#include "capture/python/saving/scalars.h"
#include "capture/python/segments/captured.h"
#include "program/file.h"
#include "program/program.h"
#include "value.h"
#include "vesta/load.h"

namespace py = pybind11;

namespace vesta::python {
namespace {

capture::Object owned(py::handle x) { return capture::Object::share(x.ptr()); }

// A parameter as inspect.signature has it: (name, kind, default). A default that is not a constant is left out.
program::Parameter parameter(const std::string& name, int kind, const std::optional<py::object>& fallback) {
  program::Parameter out{name, static_cast<program::Parameter::How>(kind), {}};
  if (fallback) out.fallback = capture::scalar_of(fallback->ptr());
  return out;
}

py::dict save(const py::object& captured, const std::string& path, py::list parameters, bool passes_on,
              const py::object& function, const std::optional<py::object>& bound, const py::dict& names, bool weights) {
  capture::Calling calling;
  for (py::handle p : parameters) {
    const auto t = py::cast<py::tuple>(p);
    calling.parameters.push_back(parameter(py::cast<std::string>(t[0]), py::cast<int>(t[1]),
                                           t.size() > 2 ? std::optional<py::object>(t[2]) : std::nullopt));
  }
  calling.passes_on = passes_on;
  calling.function = owned(function);
  if (bound) calling.bound = owned(*bound);
  for (const auto& [name, tensor] : names) calling.names.emplace_back(py::cast<std::string>(name), owned(tensor));
  capture::Saving made = capture::make_program(capture::captured_of(captured.ptr()), calling);
  if (!weights) made.memory.assign(made.memory.size(), nullptr);
  py::dict out;
  out["skipped"] = made.skipped;
  out["dropped"] = made.dropped;
  out["variants"] = made.program.variants.size();
  int64_t bytes = 0;
  {
    const py::gil_scoped_release release;
    bytes = program::save(std::move(made.program), made.memory, path);
  }
  out["bytes"] = bytes;
  return out;
}

class LoadedProgram {
 public:
  LoadedProgram(const std::string& path, std::string weights, std::map<std::string, at::Tensor> tensors, bool check) {
    LoadOptions options;
    options.weights = std::move(weights);
    options.tensors = std::move(tensors);
    options.check_weights = check;
    const py::gil_scoped_release release;
    program_ = std::make_unique<detail::Program>(path, options);
  }
  py::object call(const py::args& args, const py::kwargs& kwargs) const {
    std::vector<detail::Value> values;
    for (py::handle x : args) values.push_back(to_value(x));
    detail::Program::Keywords keywords;
    for (const auto& [name, x] : kwargs) keywords.emplace_back(py::cast<std::string>(name), to_value(x));
    detail::Value result;
    {
      const torch::PyWarningHandler warnings;
      const py::gil_scoped_release release;
      result = program_->call(std::move(values), std::move(keywords));
    }
    return to_python(result);
  }
  std::vector<std::pair<std::string, at::Tensor>> weights() const { return program_->weights(); }
  void bind(const std::map<std::string, at::Tensor>& tensors) { program_->bind(tensors); }
  std::string describe() const { return program_->describe(); }

 private:
  std::unique_ptr<detail::Program> program_;
};

}  // namespace

void add_program(py::module_& m) {
  m.def("save_program", &save, py::arg("captured"), py::arg("path"), py::arg("parameters"), py::arg("passes_on"),
        py::arg("function"), py::arg("bound"), py::arg("names"), py::arg("weights"),
        "Writes the variants of a CapturedFunction that a call would take now; what was saved, as a dict.");
  m.def(
      "show_program",
      [](const std::string& path, bool check) {
        const program::Opened file = program::open(path);
        py::dict out;
        out["text"] = program::print(file.program);
        out["name"] = file.program.name;
        out["signature"] = program::signature(file.program);
        out["bytes"] = file.mapping->bytes().size();
        out["assumed"] = file.program.assumed;
        py::list variants, weights;
        for (const program::Variant& v : file.program.variants) {
          py::dict one;
          one["kernels"] = v.artifact.about.kernels.size();
          one["externs"] = v.artifact.about.ops_extern;
          one["cpu"] = v.origin.target.cpu;
          one["torch"] = v.origin.torch;
          std::vector<std::string> checks;
          for (const program::Check& c : v.checks) checks.push_back(program::text(file.program, v, c));
          one["checks"] = checks;
          variants.append(one);
        }
        for (const program::Weight& w : file.program.weights) {
          py::dict one;
          one["name"] = w.name;
          one["dtype"] = name(w.dtype);
          one["device"] = to_string(w.device);
          one["shape"] = w.sizes;
          one["inside"] = file.program.storages[static_cast<size_t>(w.storage)].at >= 0;
          weights.append(one);
        }
        out["variants"] = variants;
        out["weights"] = weights;
        if (check) out["damaged_storages"] = program::check_weights(file);
        return out;
      },
      py::arg("path"), py::arg("check") = false, "What a saved program holds.");
  py::class_<LoadedProgram>(m, "LoadedProgram")
      .def(py::init<const std::string&, std::string, std::map<std::string, at::Tensor>, bool>(), py::arg("path"),
           py::arg("weights") = "", py::arg("tensors") = std::map<std::string, at::Tensor>(),
           py::arg("check_weights") = false)
      .def("__call__", &LoadedProgram::call)
      .def("weights", &LoadedProgram::weights)
      .def("bind", &LoadedProgram::bind, py::arg("tensors"))
      .def("describe", &LoadedProgram::describe);
}

}  // namespace vesta::python
