// What Vesta leaves to PyTorch's own compilers and tracers, and what their marks on functions say.
#pragma once

#include <Python.h>

#include <string_view>

namespace vesta::capture {

// Code of Dynamo, AOTAutograd, Inductor or torch.export. A trace never looks into it: a call of it is a break.
bool is_code_of_compiler(PyCodeObject* code);
// A break that calls it runs it as it is: it enters a compiler or a tracer, which has an evaluation hook or a mode of
// its own. (A trace may go through some of it.)
bool enters_compiler(PyCodeObject* code);
// The function that torch.compile made this one of; borrowed, or nullptr if torch.compile did not make it.
PyObject* compiled_by_torch(PyObject* function);
// HigherOrderOperator.__call__, which dispatches torch.cond and its like.
bool dispatches_higher_order(PyObject* function);
// torch._dynamo.mark_static and its like: notes for Dynamo on a tensor.
bool marks_for_dynamo(PyObject* function);
// A method of torch.profiler.record_function: it computes nothing.
bool marks_a_range(PyObject* function);

// By the name of the module that asks. ----
// It only relays the question: the one that asks is its caller.
bool relays_is_compiling(std::string_view module);
// torch's own code, in which being compiled may change a result: it is told no.
bool computes_otherwise_compiled(std::string_view module);
// torch's higher-order operators, which enter Dynamo unless they are told that they are in it.
bool enters_dynamo_unless_compiling(std::string_view module);

}  // namespace vesta::capture
