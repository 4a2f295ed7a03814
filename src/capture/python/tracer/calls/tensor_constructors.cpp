// Constructors of tensors that do not know fake tensors: functions that came after them make the same.
#include <algorithm>
#include <vector>

#include "capture/python/functions/call_handlers.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/class_sets.h"

namespace vesta::capture {
namespace {

bool is_size(PyObject* x) { return is_of(x, ClassSet::TorchSize); }

Object torch_attribute(const char* name) {
  return Object::take(PyObject_GetAttrString(PyImport_AddModule("torch"), name));
}

// Positional arguments and those by name of a call that is being put together.
class Arguments {
 public:
  Arguments(PyObject* const* args, Py_ssize_t n, PyObject* names) : positional_(n) {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    for (Py_ssize_t i = 0; i < n; ++i) values_.push_back(Object::share(args[i]));
    for (Py_ssize_t i = 0; i < named; ++i) {
      if (args[n + i] == Py_None) continue;  // means what an argument that is left out means
      values_.push_back(Object::share(args[n + i]));
      names_.push_back(Object::share(PyTuple_GET_ITEM(names, i)));
    }
  }
  bool has(const char* name) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const Object& x) { return PyUnicode_CompareWithASCIIString(x.get(), name) == 0; });
  }
  bool add(const char* name, Object value) {
    names_.push_back(Object::take(PyUnicode_InternFromString(name)));
    values_.push_back(std::move(value));
    return names_.back() && values_.back();
  }
  PyObject* passed_to(Trace& t, PyObject* function) const {
    const Object names = Object::take(PyTuple_New(static_cast<Py_ssize_t>(names_.size())));
    if (!names || !function) return nullptr;
    for (size_t i = 0; i < names_.size(); ++i)
      PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(names_[i].get()));
    std::vector<PyObject*> values;
    for (const Object& x : values_) values.push_back(x.get());
    return t.calls.call(function, values.data(), static_cast<size_t>(positional_), names.get());
  }

 private:
  Py_ssize_t positional_;
  std::vector<Object> values_, names_;
};

// Of what is made like a tensor, or by a class of tensors.
Object dtype_of(Trace& t, PyObject* like) {
  if (!PyType_Check(like)) return Object::take(t.objects.get_attr(like, "dtype"_name));
  if (like != reinterpret_cast<PyObject*>(tensor_class())) return Object::take(PyObject_GetAttr(like, "dtype"_name));
  const Object function = torch_attribute("get_default_dtype");
  return Object::take(function ? PyObject_CallNoArgs(function.get()) : nullptr);
}

// torch.tensor(...) with the dtype and device of `like` where the arguments name none: a tensor, or a class of tensors.
PyObject* tensor_of_data(Trace& t, PyObject* like, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  Arguments all(args, n, names);
  if (!all.has("dtype") && !all.add("dtype", dtype_of(t, like))) return nullptr;
  if (!all.has("device") && !PyType_Check(like)) {
    Object value = Object::take(t.objects.get_attr(like, "device"_name));
    if (!value || !all.add("device", std::move(value))) return nullptr;
  }
  return all.passed_to(t, torch_attribute("tensor").get());
}

// torch.tensor(...) of a few integers, some of them symbolic; nullptr without an error: the arguments are none of
// those.
PyObject* tensor_of_integers(Trace& t, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  constexpr Py_ssize_t kMost = 16;
  if (n != 1) return nullptr;
  PyObject* data = args[0];
  const bool list = PyList_CheckExact(data) || PyTuple_CheckExact(data);
  const Py_ssize_t count = list ? PySequence_Fast_GET_SIZE(data) : 1;
  PyObject** items = list ? PySequence_Fast_ITEMS(data) : &data;
  if (count > kMost || std::none_of(items, items + count, is_symbolic_int) ||
      !std::all_of(items, items + count, [](PyObject* x) { return PyLong_CheckExact(x) || is_symbolic_int(x); }))
    return nullptr;
  Arguments all(args, 0, nullptr);
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* value = args[n + i];
    const std::string name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
    if (value == Py_None) continue;
    // Narrower types refuse numbers that they do not hold.
    const bool holds_all = value == torch_attribute("int64").get() || value == torch_attribute("float64").get();
    if (name != "device" && !(name == "dtype" && holds_all)) return nullptr;
    if (!all.add(name.c_str(), Object::share(value))) return nullptr;
  }
  if (!all.has("dtype") && !all.add("dtype", torch_attribute("int64"))) return nullptr;
  const Object full = torch_attribute("full"), scalar = Object::take(PyTuple_New(0));
  const Object numbers = Object::take(PyList_New(0));
  if (!full || !scalar || !numbers) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Arguments one = all;
    one.add("size", Object::share(scalar.get()));
    one.add("fill_value", Object::share(items[i]));
    Object number = Object::take(one.passed_to(t, full.get()));
    if (!number) return nullptr;
    if (!list) return number.release();
    if (PyList_Append(numbers.get(), number.get()) < 0) return nullptr;
  }
  PyObject* given = numbers.get();
  return Arguments(&given, 1, nullptr).passed_to(t, torch_attribute("stack").get());
}

}  // namespace

PyObject* legacy_tensor(Trace& t, PyObject* like, PyObject* const* args, Py_ssize_t n) {
  for (const char* name : {"is_cuda", "is_sparse"}) {
    const Object elsewhere = Object::take(is_tensor_type(like) ? PyObject_GetAttrString(like, name) : nullptr);
    if (elsewhere.get() == Py_True) return nullptr;
  }
  if (n == 1 && !is_size(args[0]) && (PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])))
    return tensor_of_data(t, like, args, n, nullptr);
  const bool sizes = n > 0 && std::all_of(args, args + n, [](PyObject* x) {
                       return (PyLong_Check(x) && !PyBool_Check(x)) || is_symbolic_int(x);
                     });
  if (n != 0 && !sizes && !(n == 1 && is_size(args[0]))) return nullptr;
  const Object none = Object::take(Py_BuildValue("(i)", 0));
  if (!none) return nullptr;
  PyObject* empty = none.get();
  Arguments all(n == 0 ? &empty : args, std::max<Py_ssize_t>(n, 1), nullptr);
  if (!PyType_Check(like)) {
    const Object method = Object::take(t.objects.get_attr(like, "new_empty"_name));
    return all.passed_to(t, method.get());
  }
  if (!all.add("dtype", dtype_of(t, like))) return nullptr;
  return all.passed_to(t, torch_attribute("empty").get());
}

namespace handlers {

Result tensor_new(Trace& t, const Call& c) {
  if (!c.owner() || c.named() > 0 || !is_tensor(c.owner())) return std::nullopt;
  PyObject* x = legacy_tensor(t, c.owner(), c.rest(), c.rest_count());
  if (x || t.ended() || PyErr_Occurred()) return x;
  return std::nullopt;
}

Result new_tensor(Trace& t, const Call& c) {
  if (!c.owner() || !is_tensor(c.owner()) || c.rest_count() != 1 || is_tensor(c.rest()[0])) return std::nullopt;
  return tensor_of_data(t, c.owner(), c.rest(), 1, c.names);
}

Result tensor_from_data(Trace& t, const Call& c) {
  PyObject* x = tensor_of_integers(t, c.args, c.n, c.names);
  if (x || t.ended() || PyErr_Occurred()) return x;
  return t.calls.on_tensors(c, /*as_data=*/true);
}

}  // namespace handlers

}  // namespace vesta::capture
