#include "known_functions.h"

#include <algorithm>
#include <array>
#include <set>

#include "capture/python/functions/python_functions.h"
#include "capture/python/functions/resolve.h"
#include "capture/python/functions/rows.h"
#include "capture/python/object.h"
#include "capture/python/values/names.h"

namespace vesta::capture::testing {
namespace {

const char* name_of(Effect effect) {
  constexpr std::array names = {"unknown", "reads",   "reads numbers", "reads state", "tensors",
                                "writes",  "appends", "extends",       "torch",       "refused"};
  return names.at(static_cast<size_t>(effect));
}

std::vector<Family> all_families() {
  std::vector<Family> all(families().begin(), families().end());
  all.push_back(numpy_functions());
  return all;
}

// Calls f(name, class) for each class of the row; the class is empty where there is none.
template <class F>
void each_class(const ClassRow& row, F&& f) {
  const Object module = Object::take(PyImport_ImportModule(row.module));
  each_name(row.classes, [&](std::string_view text) {
    const std::string name(text);
    const Object type = module ? evaluate(module.get(), name) : Object();
    f(name, type && PyType_Check(type.get()) ? type : Object());
  });
}

bool is_known(const Object& type) { return type && is_known_class(reinterpret_cast<PyTypeObject*>(type.get())); }

std::vector<Object> classes_with_rows() {
  std::vector<Object> out;
  std::set<PyObject*> seen;
  const auto add = [&](const Object& type) {
    if (is_known(type) && seen.insert(type.get()).second) out.push_back(type);
  };
  for (const Family& family : all_families())
    for (const ClassRow& row : family.classes) each_class(row, [&](const std::string&, const Object& t) { add(t); });
  const Object tuples = Object::take(PyImport_ImportModule("torch.return_types"));
  PyObject* value = nullptr;
  for (Py_ssize_t at = 0; tuples && PyDict_Next(PyModule_GetDict(tuples.get()), &at, nullptr, &value);)
    if (PyType_Check(value)) add(Object::share(value));
  return out;
}

class Rows {
 public:
  Rows() : list_(Object::take(PyList_New(0))) {}

  Object run() {
    for (const Family& family : all_families()) {
      for (const ClassRow& row : family.classes)
        each_class(row, [&](const std::string& name, const Object& type) {
          add(row.module + ("." + name), "class", is_here(row.versions), is_known(type));
        });
      for (const FunctionRow& row : family.functions) functions(row);
    }
    for (const ClassRow& row : operator_classes())
      each_class(row, [&](const std::string& name, const Object& type) {
        add(row.module + ("." + name), "tensors", is_here(row.versions), bool(type));
      });
    const std::vector<Object> classes = classes_with_rows();
    for (const FunctionRow& row : special_methods())
      each_name(row.names, [&](std::string_view name) {
        std::vector<Object> methods;
        for (const Object& type : classes)
          if (Object f = c_function_of(type.get(), std::string(name))) methods.push_back(std::move(f));
        add(row, std::string(name), methods);
      });
    for (const auto& [name, is_found] : resolved_python_rows()) add(name, "", true, is_found);
    PyErr_Clear();
    return list_;
  }

 private:
  void add(const std::string& name, const char* effect, bool expected, bool resolved) {
    const Object row = Object::take(
        Py_BuildValue("(ssNN)", name.c_str(), effect, PyBool_FromLong(expected), PyBool_FromLong(resolved)));
    if (row) PyList_Append(list_.get(), row.get());
  }
  void add(const FunctionRow& row, const std::string& name, const std::vector<Object>& found) {
    const bool is_found = std::ranges::any_of(found, [&](const Object& f) {
      const Callable known = known_callable(f.get());
      return known.effect == row.known.effect && known.handler == row.known.handler;
    });
    add(name, name_of(row.known.effect), is_here(row.versions), is_found);
  }
  void functions(const FunctionRow& row) {
    if (!Object::take(PyImport_ImportModule(row.module))) PyErr_Clear();  // an inner module of torch._C
    const auto of_class = [&](const std::string& owner) {
      const FunctionRow one = {row.module, owner.c_str(), row.names, row.known, row.versions};
      each_name(row.names, [&](std::string_view text) {
        const std::string name(text);
        add(row, row.module + ("." + owner) + (owner.empty() ? "" : ".") + name, functions_of(one, name));
      });
    };
    if (*row.classes == 0) of_class("");
    each_name(row.classes, [&](std::string_view owner) { of_class(std::string(owner)); });
  }

  Object list_;
};

}  // namespace

PyObject* known_functions(PyObject*, PyObject*) { return Rows().run().release(); }

PyObject* known_classes(PyObject*, PyObject*) {
  Object list = Object::take(PyList_New(0));
  for (const Object& type : classes_with_rows()) PyList_Append(list.get(), type.get());
  PyErr_Clear();
  return list.release();
}

PyObject* effect_of(PyObject*, PyObject* function) {
  return PyUnicode_FromString(name_of(known_callable(function).effect));
}

}  // namespace vesta::capture::testing
