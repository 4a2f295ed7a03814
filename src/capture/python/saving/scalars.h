// Python's constants as those of a saved program.
#pragma once

#include <Python.h>

#include <optional>

#include "program/program.h"

namespace vesta::capture {

// nullopt: no None, bool, int of 64 bits, float, complex, str, dtype, device, layout or memory format.
std::optional<program::Scalar> scalar_of(PyObject* x);
// What checks say of values of a class; nullopt: values of this class cannot be arguments of a saved program.
std::optional<program::Kind> kind_of_class(PyObject* cls);

}  // namespace vesta::capture
