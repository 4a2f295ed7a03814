// From the rows of the table of C functions to Python's functions. Nothing here leaves an error set.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "capture/python/functions/rows.h"
#include "capture/python/object.h"

namespace vesta::capture {

// This Python and this torch have what a row of these versions names.
bool is_here(const Versions& versions);
// The C function behind an attribute of a module or a class, or of the class of another object; nothing: there is none.
Object c_function_of(PyObject* owner, const std::string& name);
// A row's C functions of that name: one for each of its classes that has it.
std::vector<Object> functions_of(const FunctionRow& row, const std::string& name);
// By what the table finds a function: its definition, which a method shares with its bound form, or the object itself.
const void* key_of(PyObject* function);
// The name that C gave a function, by which its rows are found; nullptr: it is no C function.
const char* name_in_c(PyObject* function);
// The method of a known class that a function with this name is, or is bound to; nothing: it is none.
Object method_of_known_class(PyObject* function, const std::string& name);

}  // namespace vesta::capture
