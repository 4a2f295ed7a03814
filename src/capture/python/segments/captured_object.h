// vesta._C.CapturedFunction and vesta._C.CompiledBase.
#pragma once

#include <Python.h>

#include <string>

#include "vesta/capture_report.h"
#include "vesta/options.h"

namespace vesta::capture {

class Captured;

// Adds both classes to a module; -1 with an error set.
int add_captured_object(PyObject* module);
// A CapturedFunction; `wrapped` is borrowed.
PyObject* make_captured(PyObject* wrapped, Options options, std::string name, bool fullgraph);
bool is_captured(PyObject* x);
// The interpreter calls an object of this class, made by a class statement, by what its slot `_vesta_call` holds: no
// Python frame lies in between, and for a class derived from CompiledBase no tuple of arguments. Its method `__call__`,
// in its own dict, is for those that read code in place of running it, and for callers that look the method up.
void call_objects_by_slot(PyTypeObject* cls);
CaptureReport report_of(PyObject* captured);
const Captured& captured_of(PyObject* captured);

}  // namespace vesta::capture
