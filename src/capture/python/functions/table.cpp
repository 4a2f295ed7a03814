// The table of C functions: all rows, found by pointer.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "capture/python/functions/functions.h"
#include "capture/python/functions/resolve.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"
#include "capture/python/values/names.h"

namespace vesta::capture {
namespace {

class Table {
 public:
  Table() {
    for (const FunctionRow& row : special_methods())
      if (is_here(row.versions)) each_name(row.names, [&](std::string_view name) { special_.emplace(name, &row); });
    for (const Family& family : families()) {
      for (const ClassRow& row : family.classes) add_classes(row, false);
      for (const FunctionRow& row : family.functions)
        each_name(row.names, [&](std::string_view name) { rows_.emplace(name, &row); });
    }
    for (const OperatorHome& home : operator_homes())
      if (PyObject* module = imported_module(home.module))
        homes_.push_back(*home.object ? evaluate(module, home.object) : Object::share(module));
    std::erase_if(homes_, [](const Object& home) { return !home; });
    for (const ClassRow& row : operator_classes())
      if (is_here(row.versions)) operator_classes_.push_back(evaluate(imported_module(row.module), row.classes));
    new_method_ = key_of(c_function_of(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__").get());
  }
  const Callable* find(PyObject* function) {
    const void* key = key_of(function);
    if (const auto it = known_.find(key); it != known_.end()) return &it->second;
    if (const char* name = name_in_c(function)) return find_by_name(function, key, name);
    if (has_numpy_ || !is_of(function, ClassSet::NumpyFunctions)) return nullptr;
    add_numpy();
    return find(function);
  }
  bool has(PyTypeObject* type) {
    if (!known_.contains(type) && type->tp_iter && !is_python_class(type)) add_iterables();
    return known_.contains(type);
  }
  bool is_operator_class(PyTypeObject* type) const {
    return std::any_of(operator_classes_.begin(), operator_classes_.end(),
                       [&](const Object& c) { return c.get() == reinterpret_cast<PyObject*>(type); });
  }
  // What makes an object of a class, whichever the class: __new__ of all classes of C is one function.
  bool is_new_method(PyObject* function) const { return key_of(function) == new_method_; }

 private:
  const Callable* find_by_name(PyObject* function, const void* key, const char* name) {
    for (auto [it, end] = rows_.equal_range(name); it != end; ++it)
      for (const Object& found : functions_of(*it->second, name))
        if (key_of(found.get()) == key) return keep(found, it->second->known);
    if (const auto it = special_.find(name); it != special_.end())
      if (const Object method = method_of_known_class(function, name)) return keep(method, it->second->known);
    for (const Object& home : homes_) {
      const Object found = c_function_of(home.get(), name);
      if (!found || key_of(found.get()) != key) continue;
      if (is_operator_on_tensors(name)) return keep(found, Effect::Tensors);
      if (Py_TYPE(found.get()) == &PyGetSetDescr_Type && key_of(home.get()) == PyDescr_TYPE(found.get()))
        return keep(found, refused("is an attribute that Vesta does not know"));
    }
    return nullptr;
  }

  void add_numpy() {
    has_numpy_ = true;
    for (const FunctionRow& row : numpy_functions().functions)
      each_name(row.names, [&](std::string_view name) {
        for (const Object& function : functions_of(row, std::string(name))) keep(function, row.known);
      });
  }

  // Classes without names, which an expression finds, are all iterable.
  void add_classes(const ClassRow& row, bool iterables) {
    PyObject* module = imported_module(row.module);
    if (module && is_here(row.versions))
      each_name(row.classes, [&](std::string_view name) {
        if (iterables == (name.find('(') != name.npos)) add_class(evaluate(module, std::string(name)).get());
      });
  }
  void add_class(PyObject* type) {
    if (type && PyType_Check(type) && !known_.contains(type)) keep(Object::share(type), Effect::Reads);
  }
  void add_iterables() {
    if (has_iterables_) return;
    for (const Family& family : families())
      for (const ClassRow& row : family.classes) add_classes(row, true);
    // What operators with several results return: tuples with names.
    PyObject *module = imported_module("torch.return_types"), *value = nullptr;
    for (Py_ssize_t at = 0; module && PyDict_Next(PyModule_GetDict(module), &at, nullptr, &value);)
      if (PyType_Check(value) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value), &PyTuple_Type))
        add_class(value);
    has_iterables_ = true;
  }

  const Callable* keep(const Object& function, const Callable& known) {
    kept_.push_back(function);
    return &known_.insert_or_assign(key_of(function.get()), known).first->second;
  }

  std::unordered_multimap<std::string_view, const FunctionRow*> rows_;
  std::unordered_map<std::string_view, const FunctionRow*> special_;
  std::vector<Object> homes_;  // of operators on tensors
  std::vector<Object> operator_classes_;
  std::unordered_map<const void*, Callable> known_;
  std::vector<Object> kept_;  // so that no other object gets the address of a key
  const void* new_method_ = nullptr;
  bool has_iterables_ = false, has_numpy_ = false;
};

Table& table() {
  static auto* const made = new Table();
  return *made;
}

}  // namespace

std::span<const Family> families() {
  static const Family all[] = {builtin_functions(), builtin_classes(),  containers(),      iterators(),
                               exceptions(),        standard_library(), torch_operators(), torch_state_functions()};
  return all;
}

bool is_known_class(PyTypeObject* type) { return table().has(type); }

bool is_torch_operator(PyObject* f) {
  if (!PyCFunction_Check(f)) return table().is_operator_class(Py_TYPE(f));
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(f)->m_module;
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!name) return PyErr_Clear(), false;
  // What begins and ends a profiler's range is no operator on tensors: a trace would leave a range of its own.
  constexpr std::string_view kNamespaces = "torch._ops.";
  return std::string_view(name).starts_with(kNamespaces) && name != std::string_view("torch._ops.profiler");
}

Callable known_callable(PyObject* f) {
  if (PyType_Check(f)) {
    PyTypeObject* base = c_base(reinterpret_cast<PyTypeObject*>(f));
    return base && is_known_class(base) ? Effect::Reads : Effect::Unknown;
  }
  if (is_torch_operator(f)) return Effect::Tensors;
  if (PyCFunction_Check(f) && table().is_new_method(f)) {
    PyObject* self = PyCFunction_GET_SELF(f);
    auto* type = self && PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : nullptr;
    if (type && PyType_IsSubtype(type, &PyType_Type)) return refused("makes a class");
    return type && is_known_class(type) ? Effect::Reads : Effect::Unknown;
  }
  if (const Callable* known = table().find(f)) return *known;
  // An object whose class is a known one.
  return !name_in_c(f) && is_known_class(Py_TYPE(f)) ? Effect::Reads : Effect::Unknown;
}

}  // namespace vesta::capture
