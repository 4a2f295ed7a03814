// Python functions that a call in a trace does not enter: each has a handler, or says how its function is compiled.
#pragma once

#include <Python.h>

#include <vector>

#include "capture/python/functions/functions.h"

namespace vesta::capture {

// The handler of a function that has a row, found by its code; nullptr: there is none. A decorator may have made a
// function of its own from the code.
CallHandler handler_of(PyObject* function);
// HigherOrderOperator.__call__, which dispatches torch.cond and its like.
bool dispatches_higher_order(PyObject* function);
// A function with a row that neither computes nor calls anything: after a graph break nothing of it is compiled.
bool computes_nothing(PyObject* function);

// A function marked by torch.compiler.disable or vesta.disable.
bool is_disabled(PyObject* function);
// ": why", as it was given to disable(), or nothing.
std::string reason_of_disabling(PyObject* function);
// Of disable(recursive=False): the function whose own frame is not compiled, while what it calls is; borrowed, or
// nullptr.
PyObject* disabled_alone(PyObject* function);
// The callable that a wrapper of torch's stands for: the wrapper's attribute of that name. Borrowed, or nullptr.
PyObject* wrapped_callable(PyObject* function, const char* attribute);

// The names of all rows, and whether each is the name of a function, for tests. A module that is not imported has none.
std::vector<std::pair<std::string, bool>> resolved_python_rows();

}  // namespace vesta::capture
