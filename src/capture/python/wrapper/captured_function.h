// The two classes of Python objects that users call: vesta._C.CapturedFunction, which holds a CapturedCallable, and
// vesta._C.CompiledBase, the base of wrappers that have a CapturedFunction in a slot. A call decides here whether it
// runs the original: where others trace, where a stance asks for it, where compiled code gains nothing. Nothing here
// knows of traces, guards or graphs.
#pragma once

#include <Python.h>

#include <memory>

namespace vesta::capture {

class CapturedCallable;

// Adds both classes to a module; -1 with an error set.
int add_captured_function(PyObject* module);
// A CapturedFunction; a new reference, nullptr with an error set.
PyObject* new_captured_function(std::unique_ptr<CapturedCallable> callable);
bool is_captured(PyObject* x);
// The callable of a CapturedFunction.
CapturedCallable& captured_in(PyObject* captured_function);
// The original callable of a CapturedFunction, or of an object that call_objects_by_slot() makes one be called for;
// borrowed, nullptr for any other object.
PyObject* wrapped_by_capture(PyObject* x);
// The interpreter calls objects of this class, which a class statement made, by the object in their slot
// `_vesta_call`: no Python frame lies in between, and for a class derived from CompiledBase no tuple of arguments. The
// method `__call__` in the class's own dict serves code that reads it without running it, and callers that look it up.
void call_objects_by_slot(PyTypeObject* cls);

}  // namespace vesta::capture
