// A global variable of a module that may be imported late or never, read in every call without a lookup. It never
// imports the module.
#pragma once

#include <Python.h>

#include <cstdint>

namespace vesta::capture {

class ModuleGlobal {
 public:
  ModuleGlobal(const char* module, const char* name)
      : module_(PyUnicode_InternFromString(module)), name_(PyUnicode_InternFromString(name)) {}
  // Borrowed; nullptr without an error: the module or the variable is not there yet.
  PyObject* get() { return version_ && *version_ == seen_ ? found_ : look(); }

 private:
  PyObject* look();

  PyObject *module_, *name_;
  PyObject* globals_ = nullptr;  // of the module, owned
  // The version of the globals, or of sys.modules before the import. While it is `seen_`, found_ is right.
  const uint64_t* version_ = nullptr;
  uint64_t seen_ = 0;
  PyObject* found_ = nullptr;
};

}  // namespace vesta::capture
