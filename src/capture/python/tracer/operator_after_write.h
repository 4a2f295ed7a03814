// Whether the trace may run a torch operator now. Where torch's operators release the GIL in a trace (gil_is_held() is
// false), another thread would see what the trace has written to the program's objects and not yet undone.
#pragma once

#include <Python.h>

#include <initializer_list>

namespace vesta::capture {

class Trace;

// False: the trace has ended before the operator, at Break::OperatorAfterWrite.
bool may_run_operator(Trace& trace);
// The same for what is an operator of torch's if an operand is a tensor.
bool may_operate_on(Trace& trace, std::initializer_list<PyObject*> operands);

}  // namespace vesta::capture
