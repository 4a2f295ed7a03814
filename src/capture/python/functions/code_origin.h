// Whose code it is, by its file: the program's own, an installed package's or Python's.
#pragma once

#include <Python.h>

#include <string>

namespace vesta::capture {

// The folder of a module's file, with a "/" at its end; empty if there is none.
std::string folder_of(const char* module);
bool is_standard_library(PyCodeObject* code);
bool is_installed_package(PyCodeObject* code);

}  // namespace vesta::capture
