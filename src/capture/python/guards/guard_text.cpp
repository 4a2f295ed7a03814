#include "capture/python/guards/guard_text.h"

#include <fmt/format.h>

#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

// Runs no Python code of the program.
std::string show(PyObject* x) {
  if (!x) return "nothing";
  if (is_scalar(x)) return shortened(Object::take(PyObject_Repr(x)), 80);
  if (PyType_Check(x)) return std::string("class ") + reinterpret_cast<PyTypeObject*>(x)->tp_name;
  return fmt::format("{} at {}", Py_TYPE(x)->tp_name, static_cast<void*>(x));
}

std::string length(PyObject* x) {
  const Py_ssize_t n =
      x && (PyList_Check(x) || PyTuple_Check(x) || PyDict_Check(x) || PyAnySet_Check(x)) ? PyObject_Size(x) : -1;
  PyErr_Clear();
  return std::to_string(n);
}

// By Check: its kind, and what it says of a source.
struct Row {
  Check check;
  const char *kind, *text;
};
constexpr Row kRows[] = {
    {Check::Type, "type", "type({what}) is {that}"},
    {Check::Is, "identity", "{what} is {that}"},
    {Check::Same, "identity", "{what} is {that}"},
    {Check::Different, "identity", "{what} is not {that}"},
    {Check::Equals, "constant", "{what} == {that}"},
    {Check::Present, "presence", "{what} exists"},
    {Check::Absent, "presence", "{what} does not exist"},
    {Check::Length, "length", "len({what}) == {that}"},
    {Check::Keys, "keys", "the keys of {what} and their order"},
    {Check::Members, "members", "the items of {what}"},
    {Check::Class, "class", "class {that} is unchanged"},
    {Check::Code, "code", "the code of {what}"},
    {Check::Tensor, "tensor", "requires_grad, is_leaf and inference mode of {what}"},
    {Check::Bare, "tensor", "{what} has no attributes of its own"},
    {Check::Skipped, "identity", "{what} is {that}"},
};
const Row& row_of(Check c) { return *std::ranges::find(kRows, c, &Row::check); }

std::string expected_text(const GuardProgram& program, const Guard& g) {
  switch (g.check) {
    case Check::Type:
    case Check::Class: return reinterpret_cast<PyTypeObject*>(g.expected)->tp_name;
    case Check::Same:
    case Check::Different: return source_text(program, static_cast<int>(g.number));
    case Check::Is:
    case Check::Equals: return show(g.expected);
    case Check::Length: return std::to_string(g.number);
    case Check::Skipped: return g.number ? "skipped" : "not skipped";
    default: return "";
  }
}

}  // namespace

std::string guard_text(const GuardProgram& program, const Guard& g) {
  return fmt::format(fmt::runtime(row_of(g.check).text),
                     fmt::arg("what", g.source >= 0 ? source_text(program, g.source) : ""),
                     fmt::arg("that", expected_text(program, g)));
}

CaptureDifference difference(const GuardProgram& program, int failed, const Registers& r) {
  if (failed == GuardProgram::kAliased)
    return {"two names that were different objects are one object, which is written", "", "", {}};
  const Guard& g = program.guards()[static_cast<size_t>(failed)];
  PyObject* x = g.source >= 0 ? r[g.source] : nullptr;
  CaptureDifference d{guard_text(program, g), "", "", {}};
  if (g.check == Check::Type || g.check == Check::Length || g.check == Check::Is || g.check == Check::Equals)
    d.was = expected_text(program, g);
  switch (g.check) {
    case Check::Type: d.now = x ? Py_TYPE(x)->tp_name : "nothing"; break;
    case Check::Length: d.now = length(x); break;
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

const char* kind_of(Check c) { return row_of(c).kind; }

}  // namespace vesta::capture
