// vesta._C.CapturedFunction.
#pragma once

#include <Python.h>

#include <string>

#include "vesta/capture_report.h"
#include "vesta/options.h"

namespace vesta::capture {

// Adds the class to a module; -1 with an error set.
int add_captured_object(PyObject* module);
// A CapturedFunction; `wrapped` is borrowed.
PyObject* make_captured(PyObject* wrapped, Options options, std::string name, bool fullgraph);
bool is_captured(PyObject* x);
CaptureReport report_of(PyObject* captured);

}  // namespace vesta::capture
