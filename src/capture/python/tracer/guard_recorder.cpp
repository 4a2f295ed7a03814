#include "capture/python/tracer/guard_recorder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "capture/python/functions/functions.h"
#include "capture/python/tensors/tensors.h"
#include "capture/python/tracer/trace.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/scalar.h"

namespace vesta::capture {
namespace {

std::vector<PyObject*> special_methods_of_tensors() {
  std::vector<PyObject*> names;
  const auto add = [&](std::string_view name) {
    names.push_back(PyUnicode_InternFromString(fmt::format("__{}__", name).c_str()));
  };
  // clang-format off
  for (const char* name : {"torch_function", "getattribute", "getattr", "call", "lt", "le", "eq", "ne", "gt", "ge", "neg",
                           "pos", "abs", "invert", "len", "bool", "getitem", "setitem", "delitem", "contains", "iter",
                           "next", "index", "int", "float", "complex", "hash", "format", "round", "divmod", "enter",
                           "exit", "class", "rdivmod", "reversed"})
    add(name);
  // clang-format on
  for (const char* name :
       {"add", "and", "floordiv", "lshift", "matmul", "mul", "mod", "or", "pow", "rshift", "sub", "truediv", "xor"})
    for (const char* side : {"", "r", "i"}) add(std::string(side) + name);
  return names;
}

}  // namespace

void GuardRecorder::add(Check check, int source, PyObject* expected, int64_t number) {
  if (!added_.emplace(check, source, expected, number).second) return;
  Guard g{check, source, expected ? t_.sources.keep(expected) : nullptr, number};
  if (const Progress::Place& place = t_.progress.place(); place.frame) {
    g.asked_in = code_of(place.frame);
    t_.sources.keep(reinterpret_cast<PyObject*>(g.asked_in));
    g.position = place.position;
  }
  guards_.push_back(g);
}

void GuardRecorder::add_identity(PyObject* x) {
  if (const int source = t_.sources.find(x); source >= 0 && t_.sources[source].kind != SourceKind::Constant)
    add(Check::Is, source, x);
}

void GuardRecorder::add_class(PyTypeObject* type, PyObject* name) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return;
  if (!looked_up_.emplace(type, name).second) return;
  if (name) {
    PyObject* found = _PyType_Lookup(type, name);
    t_.sources.keep(name);
    if (found) t_.sources.keep(found);
    lookups_.push_back({type, name, found});
  } else if (writes_by_operators(type)) {
    t_.graph_break(Break::WritingOperator, type->tp_name);
  }
  add(Check::Class, -1, reinterpret_cast<PyObject*>(type));
}

void GuardRecorder::add_class_dict(PyTypeObject* type) {
  if (!class_dicts_.insert(type).second) return;
  lookups_.push_back({type, nullptr, nullptr});
  const Object proxy = attribute_of(reinterpret_cast<PyObject*>(type), "__dict__");
  const Object values = Object::take(proxy ? PyMapping_Values(proxy.get()) : nullptr);
  PyErr_Clear();
  for (PyObject* x : span_of(values.get()))
    if (!is_scalar(x) && !is_tensor(x)) t_.tracker.note_constant(x);
}

void GuardRecorder::add_special_methods(PyTypeObject* type) {
  if (!tensor_classes_.insert(type).second) return;
  static const std::vector<PyObject*> names = special_methods_of_tensors();
  for (PyObject* name : names) add_class(type, name);
}

void GuardRecorder::add_methods(PyObject* x, std::initializer_list<std::string> names) {
  if (is_tensor(x) || is_symbolic(x) || !is_python_class(Py_TYPE(x))) return;
  for (const std::string& text : names)
    if (const Object name = Object::take(PyUnicode_InternFromString(text.c_str()))) add_class(Py_TYPE(x), name.get());
}

void GuardRecorder::add_class_check(PyObject* classes) {
  if (!t_.objects.may_read_class(classes)) return;
  if (PyType_Check(classes) && !PyType_CheckExact(classes)) add_class(Py_TYPE(classes), "__instancecheck__"_name);
  for (Py_ssize_t i = 0; PyTuple_Check(classes) && i < PyTuple_GET_SIZE(classes); ++i)
    add_class_check(PyTuple_GET_ITEM(classes, i));
}

bool GuardRecorder::add_address(PyObject* x) {
  if (t_.sources.find(x) < 0) return t_.graph_break(Break::AddressOfNewObject), false;
  add_identity(x);
  return true;
}

bool GuardRecorder::add_addresses_in(PyObject* text) {
  static constexpr std::string_view kBefore = " at 0x";
  Py_ssize_t n = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &n);
  if (!utf8) return PyErr_Clear(), true;  // has surrogates
  const std::string_view all(utf8, static_cast<size_t>(n));
  for (size_t at = all.find(kBefore); at != std::string_view::npos; at = all.find(kBefore, at + 1)) {
    const auto address = std::strtoull(utf8 + at + kBefore.size(), nullptr, 16);
    if (!add_address(reinterpret_cast<PyObject*>(address))) return false;
  }
  return true;
}

std::string GuardRecorder::source_text(int source) const {
  return t_.sources.text(source, reinterpret_cast<PyObject*>(code_of(t_.root)));
}

std::string GuardRecorder::history_key(int source) const {
  int root = source;
  while (t_.sources[root].parent >= 0) root = t_.sources[root].parent;
  if (t_.sources[root].kind != SourceKind::Constant) return source_text(source);
  return fmt::format("{} of {}", source_text(source), static_cast<const void*>(t_.sources[root].key));
}

}  // namespace vesta::capture
