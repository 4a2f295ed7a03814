// What Vesta leaves to PyTorch's own compilers and tracers, by the file of the code, and what they do on being told
// that they are compiled, by the name of the module that asks.
#pragma once

#include <Python.h>

#include <string_view>

namespace vesta::capture {

// Code of Dynamo, AOTAutograd, Inductor or torch.export. A trace never looks into it: a call of it is a graph break.
bool is_code_of_compiler(PyCodeObject* code);
// The code enters a compiler or a tracer, which has an evaluation hook or a mode of its own: after a graph break it
// runs without ours. (A trace may go through some of it.)
bool enters_compiler(PyCodeObject* code);

// A function of torch.optim that updates lists of tensors (torch.optim.adam.adam). After a graph break in it all of it
// runs without a hook: its parts between breaks, a few operators each, cost more than they save. Methods of optimizers
// are none of these, because they call closures of the program.
bool updates_parameters(PyCodeObject* code);

// A function of torch that runs autograd's engine and computes nothing beside it: loss.backward(), torch.autograd.grad.
// After a graph break in it all of it runs without a hook.
bool runs_autograd(PyCodeObject* code);

// A function of torch.func that gives another function's derivative or batches it: grad(f), vmap(f). After a graph
// break in f all of the call runs without a hook: f sees the transform's tensors, which only eager code computes with.
bool runs_transform(PyCodeObject* code);

// The module only relays the question whether it is compiled: its caller asks.
bool relays_is_compiling(std::string_view module);
// torch's own code whose result may depend on the answer: it is told no.
bool computes_otherwise_compiled(std::string_view module);
// torch's higher-order operators, which enter Dynamo unless they are told that they are in it.
bool enters_dynamo_unless_compiling(std::string_view module);

}  // namespace vesta::capture
