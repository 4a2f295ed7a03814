#include "capture/python/sources/source.h"

#include <fmt/format.h>

#include "capture/python/sources/compute.h"

namespace vesta::capture {
namespace {

std::string text_of(PyObject* x, bool repr) {
  // No Python code of the program runs. An object that is neither string nor number is named by class and address.
  if (!x || !(PyUnicode_CheckExact(x) || PyLong_CheckExact(x) || PyFloat_CheckExact(x) || PyBool_Check(x) ||
              PyBytes_CheckExact(x) || x == Py_None))
    return x ? fmt::format("<{} at {}>", Py_TYPE(x)->tp_name, static_cast<const void*>(x)) : "?";
  return shortened(Object::take(repr ? PyObject_Repr(x) : PyObject_Str(x)), 60);
}

std::string name_of(PyObject* x) {
  const bool has_name = PyType_Check(x) || PyFunction_Check(x) || PyCFunction_Check(x);
  const Object name = PyModule_Check(x) ? Object::take(PyModule_GetNameObject(x))
                                        : attribute_of(has_name ? x : nullptr, "__qualname__");
  PyErr_Clear();
  return name ? text_of(name.get(), false) : std::string("a ") + Py_TYPE(x)->tp_name;
}

// The text of a key: a scalar, or a tuple. Other objects are named by their classes.
std::string repr_of(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return text_of(key, true);
  std::string out = "(";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    out += (i ? ", " : "") + text_of(PyTuple_GET_ITEM(key, i), true);
  return out + ")";
}

bool is_number(PyObject* x) { return PyLong_Check(x) || PyFloat_Check(x); }

std::string computed_text(int operation, PyObject* function, const std::string& left, const std::string& right) {
  static constexpr const char* binary[] = {"+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"};
  static constexpr const char* compare[] = {"<", "<=", "==", "!=", ">", ">="};
  switch (operation) {
    case Compute::Negative: return "-" + left;
    case Compute::Positive: return "+" + left;
    case Compute::Invert: return "~" + left;
    case Compute::Truth: return "bool(" + left + ")";
    case Compute::Call: return name_of(function) + "(" + left + (right.empty() ? "" : ", " + right) + ")";
    default:
      return fmt::format("({} {} {})", left,
                         operation >= Compute::Compare ? compare[operation - Compute::Compare] : binary[operation],
                         right);
  }
}

}  // namespace

std::string shortened(const Object& text, size_t most) {
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  const std::string out = utf8 ? utf8 : "?";
  return out.size() > most ? out.substr(0, most - 3) + "..." : out;
}

int SourceTable::add(SourceKind kind, int parent, int index, PyObject* key, int other) {
  // Keys are compared by identity. Equal strings and small integers are mostly one object; a second source for an equal
  // key costs one more check.
  const auto [it, added] = ids_.try_emplace({kind, parent, index, key, other}, size());
  if (added) sources_.push_back({kind, parent, index, key ? keep(key) : nullptr, other});
  return it->second;
}

void SourceTable::know(PyObject* object, int source) {
  if (known_.try_emplace(object, source).second) keep(object);
}

SourceTable SourceTable::places() const {
  SourceTable out;
  out.sources_ = sources_;
  for (const Source& s : sources_)
    if (s.key) out.keep(s.key);
  return out;
}

PyObject* SourceTable::keep(PyObject* object) {
  kept_.push_back(Object::share(object));
  return object;
}

std::string SourceTable::item_text(int id, PyObject* key, PyObject* code) const {
  const Source& dict = (*this)[id];
  if (dict.kind == SourceKind::Globals || dict.kind == SourceKind::Builtins) return text_of(key, false);
  if (dict.kind == SourceKind::Constant && PyDict_Check(dict.key)) {  // a module's
    PyObject* name = PyDict_GetItemString(dict.key, "__name__");
    if (name && PyUnicode_CheckExact(name)) return text_of(name, false) + "." + text_of(key, false);
  }
  if (dict.kind == SourceKind::InstanceDict) return text(id, code) + "." + text_of(key, false);
  return text(id, code) + "[" + text_of(key, true) + "]";
}

const std::string& SourceTable::text(int id, PyObject* code) const {
  if (texts_are_of_ != code) texts_.clear();
  texts_are_of_ = code;
  if (const auto it = texts_.find(id); it != texts_.end()) return it->second;
  std::string made = make_text(id, code);
  return texts_[id] = std::move(made);
}

std::string SourceTable::make_text(int id, PyObject* code) const {
  const Source& s = (*this)[id];
  auto parent = [&] { return text(s.parent, code); };
  switch (s.kind) {
    case SourceKind::Local: {
      auto* co = reinterpret_cast<PyCodeObject*>(code);
      if (co && s.index < co->co_nlocalsplus) return text_of(PyTuple_GET_ITEM(co->co_localsplusnames, s.index), false);
      return "<stack " + std::to_string(co ? s.index - co->co_nlocalsplus : s.index) + ">";
    }
    case SourceKind::Function: return "<function>";
    case SourceKind::Globals: return "globals()";
    case SourceKind::Builtins: return "builtins";
    case SourceKind::Constant: return is_number(s.key) ? text_of(s.key, true) : name_of(s.key);
    case SourceKind::InstanceDict: return parent();
    case SourceKind::DictValue: return item_text(s.parent, s.key, code);
    case SourceKind::DictKey: return "list(" + parent() + ")[" + std::to_string(s.index) + "]";
    case SourceKind::SequenceItem: return parent() + "[" + std::to_string(s.index) + "]";
    case SourceKind::CellContents: return parent();
    case SourceKind::ClosureCell: {
      auto* co = reinterpret_cast<PyCodeObject*>(code);
      if ((*this)[s.parent].kind == SourceKind::Function && co && s.index < co->co_nfreevars)
        return text_of(PyTuple_GET_ITEM(co->co_localsplusnames, co->co_nlocalsplus - co->co_nfreevars + s.index),
                       false);
      return parent() + ".__closure__[" + std::to_string(s.index) + "]";
    }
    case SourceKind::Defaults: return parent() + ".__defaults__";
    case SourceKind::KwDefaults: return parent() + ".__kwdefaults__";
    case SourceKind::Member: return parent() + "." + text_of(s.key, false);
    case SourceKind::MethodSelf: return parent() + ".__self__";
    case SourceKind::MethodFunction: return parent() + ".__func__";
    case SourceKind::PartialFunction: return parent() + ".func";
    case SourceKind::PartialArguments: return parent() + ".args";
    case SourceKind::PartialKeywords: return parent() + ".keywords";
    case SourceKind::Gradient: return parent() + "." + kGradientNames[s.index];
    case SourceKind::Referent: return parent() + "()";
    case SourceKind::Flag: return parent() + "()";
    case SourceKind::ContextValue: return parent() + ".get()";
    case SourceKind::Cached: return "what " + parent() + " keeps for " + repr_of(s.key);
    case SourceKind::Computed: return computed_text(s.index, s.key, parent(), s.other >= 0 ? text(s.other, code) : "");
  }
  return "?";
}

}  // namespace vesta::capture
