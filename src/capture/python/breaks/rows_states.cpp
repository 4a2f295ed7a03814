// State around the function.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::NewContextVariableRead, "new-context-variable-read", "reads a context variable that is new",
     "A guard needs a place where a later call finds the variable.",
     "make the context variable at the top of the module"},
    {Break::NewContextVariableSet, "new-context-variable-set", "sets a context variable that is new",
     "A later call must find the variable that it sets.", "make the context variable at the top of the module"},
    {Break::ContextVariableReset, "context-variable-reset",
     "resets a context variable to a state from before the function", "The token is of another context.",
     "set and reset the variable in the same function"},
    {Break::ContextVariableChanged, "context-variable-changed", "leaves a context variable changed",
     "A graph cannot set a context variable at its end.", "reset the variable before the function returns"},
    {Break::TorchModesChanged, "torch-modes-changed", "leaves torch's modes changed in a way that Vesta cannot repeat",
     "The state after the graph must be the state after eager mode.",
     "change the mode outside of the compiled function"},
    {Break::ExceptionAtWork, "exception-at-work", "breaks while an exception is being handled",
     "A handler cannot be entered again in its middle.", "move this line out of the except block"},
    {Break::OuterExceptionRaised, "outer-exception-raised",
     "raises an exception object that was made outside of the compiled function", "Raising it changes its traceback.",
     "make a new exception object where it is raised"},
    {Break::Raised, "raised", "raises {}",
     "The exception leaves the compiled function, which then runs eager for that call.",
     "nothing to do: eager mode raises it as well"},
};

}  // namespace

std::span<const BreakRow> states_rows() { return kRows; }

}  // namespace vesta::capture
