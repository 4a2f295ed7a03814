// torch.nn.Module.__getattr__ as the trace knows it. A model reads each of its layers through it, a third of all
// instructions of a forward pass: the trace reads the same places itself, with the same guards.
#pragma once

#include <Python.h>

#include <optional>

namespace vesta::capture {

class Trace;

// True for the function of torch.nn.modules.module as the supported torch versions have it: its names, constants and
// variables are compared. Any other function, a program's own or a later torch's, is run.
bool is_getattr_of_modules(PyObject* function);
// What this function (`getattr`) returns for a name: the module's parameter, buffer or submodule; new, nullptr with an
// error set. Nothing: the caller calls the function itself, which raises or finds the name in another way.
std::optional<PyObject*> module_item(Trace& t, PyObject* module, PyObject* name, PyObject* getattr);

}  // namespace vesta::capture
