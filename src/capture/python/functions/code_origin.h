// Whose code it is, by its file: the program's own, an installed package's or Python's.
#pragma once

#include <Python.h>

namespace vesta::capture {

bool is_standard_library(PyCodeObject* code);
bool is_installed_package(PyCodeObject* code);

}  // namespace vesta::capture
