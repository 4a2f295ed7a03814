#include "capture/python/values/names.h"

#include "capture/python/hook/hook.h"

namespace vesta::capture {

PyObject* imported_module(const std::string& name) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), name.c_str());
  if (const size_t dot = name.rfind('.'); !found && dot != std::string::npos) {
    PyObject* parent = imported_module(name.substr(0, dot));
    found = parent ? PyDict_GetItemString(PyModule_GetDict(parent), name.c_str() + dot + 1) : nullptr;
  }
  return found && PyModule_Check(found) ? found : nullptr;
}

Object evaluate(PyObject* module, const std::string& name) {
  PyObject* names = PyModule_GetDict(module);
  if (name.find('(') == std::string::npos) return Object::share(PyDict_GetItemString(names, name.c_str()));
  const HookOff off;
  const ErrorAside error;
  const Object globals = Object::take(PyDict_New());
  if (globals) PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  return Object::take(globals ? PyRun_String(name.c_str(), Py_eval_input, globals.get(), names) : nullptr);
}

}  // namespace vesta::capture
