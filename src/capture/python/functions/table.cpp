// The table of C functions: all rows, found by pointer.
#include <unordered_map>
#include <utility>

#include "capture/python/functions/functions.h"
#include "capture/python/functions/plain_objects.h"
#include "capture/python/functions/resolve.h"
#include "capture/python/hook/hook.h"
#include "capture/python/values/class_sets.h"
#include "capture/python/values/classes.h"

namespace vesta::capture {
namespace {

class Table {
 public:
  bool build() {
    for (const FunctionRow& row : special_methods()) note_special(row);
    for (const Family& family : {builtin_functions(), builtin_classes(), containers(), iterators(), exceptions(),
                                 standard_library(), torch_operators(), torch_state_functions()})
      add(family);
    add_result_tuples();
    for (const OperatorHome& home : operator_homes()) add_operators(home);
    for (const FunctionRow& row : special_methods()) report_special(row);
    const Object maker =
        Object::take(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__new__"));
    if (!maker) return false;
    new_method_ = key_of(maker.get());
    return true;
  }
  // The rows of numpy, once the program has imported it.
  void add_numpy() {
    if (std::exchange(has_numpy_, true)) return;
    const HookOff off;
    add(numpy_functions());
  }
  const Callable* find(const void* key) const {
    const auto it = known_.find(key);
    return it == known_.end() ? nullptr : &it->second;
  }
  bool is_new_method(const void* key) const { return key == new_method_; }
  const std::vector<ResolvedRow>& rows() const { return rows_; }
  const std::vector<PyTypeObject*>& classes() const { return classes_; }

 private:
  void add(const Family& family) {
    for (const ClassRow& row : family.classes)
      each_name(row.classes, [&](const std::string& name) { add_class(row, name); });
    for (const FunctionRow& row : family.functions) add_functions(row);
  }

  void add_class(const ClassRow& row, const std::string& name) {
    const Object module = is_here(row.versions) ? import_module(row.module) : Object();
    const Object type = module ? evaluate(module.get(), name) : Object();
    const bool resolved = type && PyType_Check(type.get());
    rows_.push_back({row.module + ("." + name), "class", is_here(row.versions), resolved});
    if (resolved) add_class(reinterpret_cast<PyTypeObject*>(type.get()));
  }

  void add_class(PyTypeObject* type) {
    if (!set(reinterpret_cast<PyObject*>(type), Effect::Reads)) return;
    classes_.push_back(type);
    each_function(attributes_of(type).get(), [&](std::string_view name, PyObject* function) {
      const auto special = special_.find(name);
      if (special == special_.end()) return;
      special->second.found = true;
      set(function, special->second.known);
    });
  }

  void add_functions(const FunctionRow& row) {
    const Object module = is_here(row.versions) ? import_module(row.module) : Object();
    if (*row.classes == 0)
      return each_name(row.names, [&](const std::string& name) {
        add_function(row, row.module + ("." + name), module ? evaluate(module.get(), name) : Object());
      });
    each_name(row.classes, [&](const std::string& owner) {
      const Object object = module ? evaluate(module.get(), owner) : Object();
      const bool is_class = object && PyType_Check(object.get());
      const Object own = is_class ? attributes_of(reinterpret_cast<PyTypeObject*>(object.get())) : Object();
      each_name(row.names, [&](const std::string& name) {
        Object found = own ? Object::share(PyDict_GetItemString(own.get(), name.c_str())) : Object();
        if (!found && object) found = evaluate(object.get(), name);
        add_function(row, row.module + ("." + owner) + "." + name, found);
      });
    });
  }

  void add_function(const FunctionRow& row, std::string name, const Object& found) {
    const Object function = found ? c_function_of(found.get()) : Object();
    rows_.push_back(
        {std::move(name), std::string(name_of(row.known.effect)), is_here(row.versions), static_cast<bool>(function)});
    if (function) known_[keep(function)] = row.known;
  }

  // What operators with several results return: tuples with names.
  void add_result_tuples() {
    const Object module = import_module("torch.return_types");
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; module && PyDict_Next(PyModule_GetDict(module.get()), &at, nullptr, &value);)
      if (PyType_Check(value) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(value), &PyTuple_Type))
        add_class(reinterpret_cast<PyTypeObject*>(value));
  }

  void add_operators(const OperatorHome& home) {
    const Object module = import_module(home.module);
    const Object object = module && *home.object ? evaluate(module.get(), home.object) : module;
    if (!object) return;
    if (PyModule_Check(object.get())) return add_operators(PyModule_GetDict(object.get()));
    PyTypeObject* type =
        PyType_Check(object.get()) ? reinterpret_cast<PyTypeObject*>(object.get()) : Py_TYPE(object.get());
    add_operators(attributes_of(type).get());
  }
  void add_operators(PyObject* attributes) {
    each_function(attributes, [&](std::string_view name, PyObject* function) {
      if (is_operator_on_tensors(name))
        set(function, Effect::Tensors);
      else if (Py_TYPE(function) == &PyGetSetDescr_Type)
        set(function, refused("is an attribute that Vesta does not know"));
    });
  }

  void note_special(const FunctionRow& row) {
    if (is_here(row.versions))
      each_name(row.names, [&](const std::string& name) { special_[name] = {row.known, false}; });
  }
  void report_special(const FunctionRow& row) {
    each_name(row.names, [&](const std::string& name) {
      const auto it = special_.find(name);
      rows_.push_back({name, std::string(name_of(row.known.effect)), is_here(row.versions),
                       it != special_.end() && it->second.found});
    });
  }

  const void* keep(const Object& function) {
    kept_.push_back(function);
    return key_of(function.get());
  }
  bool set(PyObject* function, const Callable& known) {
    return known_.try_emplace(keep(Object::share(function)), known).second;
  }

  struct Special {
    Callable known;
    bool found = false;
  };
  struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<const void*, Callable> known_;
  std::unordered_map<std::string, Special, TextHash, std::equal_to<>> special_;
  std::vector<Object> kept_;  // so that no other object gets the address of a key
  std::vector<ResolvedRow> rows_;
  std::vector<PyTypeObject*> classes_;
  const void* new_method_ = nullptr;
  bool has_numpy_ = false;
};
Table* table = nullptr;

}  // namespace

bool load_callables() {
  if (table) return true;
  auto* t = new Table();
  if (!t->build()) return delete t, false;
  table = t;
  return true;
}

bool is_known_class(PyTypeObject* type) { return table->find(type) != nullptr; }

bool is_torch_operator(PyObject* f) {
  if (!PyCFunction_Check(f)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(f)->m_module;
  const char* name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
  if (!name) return PyErr_Clear(), false;
  // What begins and ends a profiler's range is no operator on tensors: a trace would leave a range of its own.
  constexpr std::string_view kNamespaces = "torch._ops.";
  return std::string_view(name).starts_with(kNamespaces) && name != std::string_view("torch._ops.profiler");
}

Callable known_callable(PyObject* f) {
  const void* key = key_of(f);
  if (const Callable* known = table->find(key)) return *known;
  if (PyCFunction_Check(f)) {
    if (!table->is_new_method(key)) return is_torch_operator(f) ? Effect::Tensors : Effect::Unknown;
    PyObject* self = PyCFunction_GET_SELF(f);
    auto* type = self && PyType_Check(self) ? reinterpret_cast<PyTypeObject*>(self) : nullptr;
    if (type && PyType_IsSubtype(type, &PyType_Type)) return refused("makes a class");
    return type && is_known_class(type) ? Effect::Reads : Effect::Unknown;
  }
  if (PyType_Check(f)) {
    PyTypeObject* base = c_base(reinterpret_cast<PyTypeObject*>(f));
    return base && is_known_class(base) ? Effect::Reads : Effect::Unknown;
  }
  if (is_of(f, ClassSet::NumpyFunctions)) {
    table->add_numpy();
    const Callable* known = table->find(key);
    return known ? *known : Callable();
  }
  // A method without a row, whose own class is a known one.
  if (key != f || Py_TYPE(f) == &PyWrapperDescr_Type) return Effect::Unknown;
  return is_known_class(Py_TYPE(f)) ? Effect::Reads : Effect::Unknown;
}

const std::vector<ResolvedRow>& resolved_rows() {
  table->add_numpy();
  return table->rows();
}

std::vector<PyTypeObject*> known_classes() { return table->classes(); }

std::string_view name_of(Effect effect) {
  switch (effect) {
    case Effect::Unknown: return "unknown";
    case Effect::Reads: return "reads";
    case Effect::ReadsNumbers: return "reads numbers";
    case Effect::ReadsState: return "reads state";
    case Effect::Tensors: return "tensors";
    case Effect::WritesSelf: return "writes";
    case Effect::Appends: return "appends";
    case Effect::Extends: return "extends";
    case Effect::Torch: return "torch";
    case Effect::Refused: return "refused";
  }
  return "";
}

}  // namespace vesta::capture
