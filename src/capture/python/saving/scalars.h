// Python's constants as constants of a saved program.
#pragma once

#include <Python.h>

#include <optional>

#include "program/program.h"

namespace vesta::capture {

// Of None, a bool, an int of 64 bits, a float, complex, str, dtype, device, layout or memory format; nullopt for any
// other object.
std::optional<program::Scalar> scalar_of(PyObject* x);
// The kind by which checks name a class; nullopt: its objects cannot be arguments of a saved program.
std::optional<program::Kind> kind_of_class(PyObject* cls);

}  // namespace vesta::capture
