// From the names of a row to Python's objects, while the table of C functions is built. Nothing here leaves an error
// set.
#pragma once

#include <Python.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "capture/python/functions/rows.h"
#include "capture/python/object.h"

namespace vesta::capture {

// This Python and this torch have what a row of these versions names.
bool is_here(const Versions& versions);
// A module, or one of torch._C's inner modules, which are attributes only; nothing: there is none.
Object import_module(const std::string& name);
// A name of the module or object, or an expression of a module's names; nothing: there is none.
Object evaluate(PyObject* module, const std::string& name);
// The class's own attributes, as a new dict. (Static classes have no tp_dict in newer versions.)
Object attributes_of(PyTypeObject* type);
// The C function behind an attribute of a class or module; nothing: there is none.
Object c_function_of(PyObject* attribute);
// By what the table finds a function: its definition, which a method shares with its bound form, or the object itself.
const void* key_of(PyObject* function);

// Each of the names that are separated by spaces.
template <class F>
void each_name(std::string_view list, F&& f) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (end > at) f(std::string(list.substr(at, end - at)));
    at = end + 1;
  }
}

// Each C function among a dict's values, with its name.
template <class F>
void each_function(PyObject* attributes, F&& f) {
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; attributes && PyDict_Next(attributes, &at, &key, &value);) {
    const std::string_view name = utf8_of(key);
    if (const Object function = name.empty() ? Object() : c_function_of(value)) f(name, function.get());
  }
}

}  // namespace vesta::capture
