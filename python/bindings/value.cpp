#include "value.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include <complex>
#include <string_view>

#include "capture/python/saving/scalars.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/keys.h"
#include "capture/python/values/scalar.h"
#include "vesta/error.h"

namespace py = pybind11;

namespace vesta::python {
namespace {

using detail::Value;

constexpr int kMostDepth = 32;

Value scalar_value(const program::Scalar& s) {
  return std::visit(
      [](const auto& v) -> Value {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {Value::None()};
        } else if constexpr (std::is_same_v<T, program::Name>) {
          return {Value::Name{v.text}};
        } else {
          return {v};
        }
      },
      s);
}

Value convert(py::handle x, int depth);

Value dict_value(PyObject* dict, int depth) {
  Value::Dict out;
  // In the dict's own order and storage: a subclass may override its methods.
  const auto keys = py::reinterpret_steal<py::object>(capture::keys_of(dict));
  if (!keys) throw py::error_already_set();
  for (py::handle key : keys) {
    PyObject* item = PyDict_GetItemWithError(dict, key.ptr());
    if (!item) throw UserError("a dict changed while it was read");
    out.items.emplace_back(convert(key, depth), convert(item, depth));
  }
  return {std::move(out)};
}

Value convert(py::handle h, int depth) {
  PyObject* x = h.ptr();
  if (THPVariable_Check(x)) return {THPVariable_Unpack(x)};
  if (const auto s = capture::scalar_of(x)) return scalar_value(*s);
  if (depth > kMostDepth) throw UserError(fmt::format("arguments are nested more than {} levels deep", kMostDepth));
  if (PyList_Check(x) || PyTuple_Check(x)) {
    std::vector<Value> items;
    const Py_ssize_t n = PyList_Check(x) ? PyList_GET_SIZE(x) : PyTuple_GET_SIZE(x);
    for (Py_ssize_t i = 0; i < n; ++i)
      items.push_back(convert(PyList_Check(x) ? PyList_GET_ITEM(x, i) : PyTuple_GET_ITEM(x, i), depth + 1));
    return PyList_Check(x) ? Value{Value::List{std::move(items)}} : Value{Value::Tuple{std::move(items)}};
  }
  if (PyDict_Check(x)) return dict_value(x, depth + 1);
  const auto kind = capture::kind_of_class(reinterpret_cast<PyObject*>(Py_TYPE(x)));
  PyObject* attributes = kind == program::Kind::Dict ? capture::instance_dict(x) : nullptr;
  if (attributes) return dict_value(attributes, depth + 1);
  return {Value::Name{fmt::format("an object of class {}", Py_TYPE(x)->tp_name)}};
}

// The dtype, device, layout or memory format with this text.
py::object named(const std::string& text) {
  const py::module_ torch = py::module_::import("torch");
  constexpr std::string_view kPrefix = "torch.";
  if (text.starts_with(kPrefix)) return torch.attr(text.substr(kPrefix.size()).c_str());
  return torch.attr("device")(text);
}

}  // namespace

Value to_value(py::handle x) { return convert(x, 0); }

py::object to_python(const Value& value) {
  return std::visit(
      [](const auto& v) -> py::object {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Value::None>) {
          return py::none();
        } else if constexpr (std::is_same_v<T, at::Tensor>) {
          return py::reinterpret_steal<py::object>(THPVariable_Wrap(v));
        } else if constexpr (std::is_same_v<T, Value::Name>) {
          return named(v.text);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return py::reinterpret_steal<py::object>(PyComplex_FromDoubles(v.real(), v.imag()));
        } else if constexpr (std::is_same_v<T, Value::List>) {
          py::list out(v.items.size());
          for (size_t i = 0; i < v.items.size(); ++i) out[i] = to_python(v.items[i]);
          return out;
        } else if constexpr (std::is_same_v<T, Value::Tuple>) {
          py::tuple out(v.items.size());
          for (size_t i = 0; i < v.items.size(); ++i) out[i] = to_python(v.items[i]);
          return out;
        } else if constexpr (std::is_same_v<T, Value::Dict>) {
          py::dict out;
          for (const auto& [key, item] : v.items) out[to_python(key)] = to_python(item);
          return out;
        } else {
          return py::cast(v);
        }
      },
      value.value);
}

}  // namespace vesta::python
