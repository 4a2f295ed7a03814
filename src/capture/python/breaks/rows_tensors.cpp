// Tensors and traces.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::TensorText, "tensor-text", "turns a tensor into a string",
     "The text holds the values of the tensor, which the trace does not have.",
     "show its shape or dtype, which are known, or make the string outside of the compiled function"},
    {Break::TensorValue, "tensor-value", "{}", "The program reads a value that is only known after the graph has run.",
     "keep it a tensor (torch.where, masks), or take the value outside of the compiled function"},
    {Break::OperatorNotTraced, "operator-not-traced", "{}",
     "A graph cannot express what this operator does with its tensors.", kDoOutside},
    {Break::OperatorAfterWrite, "operator-after-write",
     "calls a torch operator after a write to an object that was made outside of the compiled function",
     "Operators release Python's lock in this process (VESTA_GIL_HOLD=0, or another build of torch), so another thread "
     "could see the write before the trace undoes it.",
     "leave VESTA_GIL_HOLD unset, or write to the object after the last operator"},
    {Break::RandomState, "random-state", "{}", "A graph draws from the default generator in the state that it finds.",
     "set the seed outside of the compiled function"},
    {Break::TraceFailed, "trace-failed", "{}", "An operator failed while it was traced, or Vesta has a bug.",
     kDoOutside},
    {Break::SecondGradients, "second-gradients", "takes gradients of gradients",
     "A compiled part of a program has no second derivative.",
     "compute gradients of gradients outside of the compiled function", Then::RunEager},
    {Break::AutogradFunction, "autograd-function", "calls a torch.autograd.Function with a tensor that requires grad",
     "Vesta does not trace backward methods that are written in Python.", "call it outside of the compiled function"},
    {Break::SavedTensorHooks, "saved-tensor-hooks", "sets hooks on the tensors that autograd saves",
     "The compiled function replaces autograd's record by one of its own.",
     "set the hooks outside of the compiled function, around code that is not compiled", Then::RunEager},
    {Break::ViewRelation, "view-relation", "calls or reads {}, which {}",
     "The tensor in a trace is a fake tensor, and a compiled part of the function would change what is a view of what.",
     "ask outside of the compiled function", Then::RunEager},
    {Break::ManyOperators, "many-operators", "unrolls a loop into more than {} operators",
     "A graph of this size takes too long to compile.", "compile the body of the loop as a function of its own",
     Then::RunEager},
    {Break::LongTrace, "long-trace", "runs too many instructions in one trace",
     "A loop over very many items is unrolled.", "compile the body of the loop as a function of its own"},
    {Break::TensorNotReached, "tensor-not-reached",
     "uses a tensor that no variable, attribute or item of the function leads to",
     "The guards cannot find the tensor in a later call.", "pass the tensor as an argument"},
};

}  // namespace

std::span<const BreakRow> tensors_rows() { return kRows; }

}  // namespace vesta::capture
