#include "capture/python/guards/guard_text.h"

#include <fmt/format.h>

#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// Runs no Python code of the program.
std::string show(PyObject* x) {
  if (!x) return "nothing";
  if (is_scalar(x)) {
    PyObject* s = PyObject_Repr(x);
    const char* p = s ? PyUnicode_AsUTF8(s) : nullptr;
    std::string out = p ? p : "?";
    Py_XDECREF(s);
    PyErr_Clear();
    return out.size() > 80 ? out.substr(0, 77) + "..." : out;
  }
  if (PyType_Check(x)) return std::string("class ") + reinterpret_cast<PyTypeObject*>(x)->tp_name;
  return fmt::format("{} at {}", Py_TYPE(x)->tp_name, static_cast<void*>(x));
}

std::string length(PyObject* x) {
  const Py_ssize_t n =
      x && (PyList_Check(x) || PyTuple_Check(x) || PyDict_Check(x) || PyAnySet_Check(x)) ? PyObject_Size(x) : -1;
  PyErr_Clear();
  return std::to_string(n);
}

}  // namespace

std::string guard_text(const GuardProgram& program, const Guard& g) {
  const auto of = [&](int source) { return program.sources().text(source, reinterpret_cast<PyObject*>(program.code)); };
  const std::string what = g.source >= 0 ? of(g.source) : "";
  switch (g.check) {
    case Check::Type: return fmt::format("type({}) is {}", what, reinterpret_cast<PyTypeObject*>(g.expected)->tp_name);
    case Check::Same:
    case Check::Different:
      return fmt::format("{} {} {}", what, g.check == Check::Same ? "is" : "is not", of(static_cast<int>(g.number)));
    case Check::Is: return fmt::format("{} is {}", what, show(g.expected));
    case Check::Equals: return fmt::format("{} == {}", what, show(g.expected));
    case Check::Present: return fmt::format("{} exists", what);
    case Check::Absent: return fmt::format("{} does not exist", what);
    case Check::Length: return fmt::format("len({}) == {}", what, g.number);
    case Check::Keys: return fmt::format("the keys of {} and their order", what);
    case Check::Members: return fmt::format("the items of {}", what);
    case Check::Class:
      return fmt::format("class {} is unchanged", reinterpret_cast<PyTypeObject*>(g.expected)->tp_name);
    case Check::Code: return fmt::format("the code of {}", what);
    case Check::Bare: return fmt::format("{} has no attributes of its own", what);
    case Check::Tensor: return fmt::format("requires_grad, is_leaf and inference mode of {}", what);
  }
  return "";
}

CaptureDifference difference(const GuardProgram& program, int failed, const Registers& r) {
  if (failed == GuardProgram::kAliased)
    return {"two names that were different objects are one object, which is written", "", "", {}};
  const Guard& g = program.guards()[static_cast<size_t>(failed)];
  PyObject* x = g.source >= 0 ? r[g.source] : nullptr;
  CaptureDifference d{guard_text(program, g), "", "", {}};
  switch (g.check) {
    case Check::Type:
      d.was = reinterpret_cast<PyTypeObject*>(g.expected)->tp_name;
      d.now = x ? Py_TYPE(x)->tp_name : "nothing";
      break;
    case Check::Length:
      d.was = std::to_string(g.number);
      d.now = length(x);
      break;
    case Check::Is:
    case Check::Equals:
      d.was = show(g.expected);
      d.now = show(x);
      break;
    case Check::Class:
    case Check::Keys:
    case Check::Members:
    case Check::Tensor:
    case Check::Bare:
    case Check::Code: d.now = "changed"; break;
    default: d.now = show(x);
  }
  return d;
}

const char* kind_of(Check c) {
  switch (c) {
    case Check::Type: return "type";
    case Check::Is:
    case Check::Same:
    case Check::Different: return "identity";
    case Check::Equals: return "constant";
    case Check::Present:
    case Check::Absent: return "presence";
    case Check::Length: return "length";
    case Check::Keys: return "keys";
    case Check::Members: return "members";
    case Check::Class: return "class";
    case Check::Code: return "code";
    case Check::Tensor:
    case Check::Bare: return "tensor";
  }
  return "";
}

}  // namespace vesta::capture
