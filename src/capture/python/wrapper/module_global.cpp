#include "capture/python/wrapper/module_global.h"

#include "capture/python/values/dict_version.h"

namespace vesta::capture {

PyObject* ModuleGlobal::look() {
  PyObject* modules = PyImport_GetModuleDict();
  if (!globals_) {
    PyObject* m = PyDict_GetItemWithError(modules, module_);
    if (m && PyModule_Check(m)) globals_ = Py_NewRef(PyModule_GetDict(m));
  }
  found_ = globals_ ? PyDict_GetItemWithError(globals_, name_) : nullptr;
  if (PyErr_Occurred()) PyErr_Clear();
  version_ = dict_version_of(globals_ ? globals_ : modules);
  if (version_) seen_ = *version_;
  return found_;
}

}  // namespace vesta::capture
