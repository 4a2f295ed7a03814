// Whole functions and calls.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::GeneratorFunction, "generator-function", "the function is a generator or a coroutine",
     "Its caller decides when it goes on.", "compile the functions that it calls"},
    {Break::NotAFunction, "not-a-function", "the function is not the code of a function",
     "The code of a module or class keeps its variables in a dict.", "compile a function"},
    {Break::Observed, "observed", "the function is watched by a debugger, a profiler or a coverage tool",
     "The tool must see each line.", "compile without the tool"},
    {Break::CompilerCode, "compiler-code", "the function is code of PyTorch's compiler",
     "Vesta does not trace PyTorch's own compilers.", "call it outside of the compiled function"},
    {Break::TooManyBreaks, "too-many-breaks", "the function breaks too often to gain anything",
     "The calls between the graphs take longer than the graphs save.",
     "look at the breaks in the explanation and remove the first of them"},
    {Break::TooManyVariants, "too-many-variants", "{}", "Each variant takes memory, and a new call checks all of them.",
     "mark what changes as dynamic, or raise the option variant_limit"},
    {Break::RunFailed, "run-failed", "{}", "The compiled graph refused these arguments when it ran.",
     "call the function outside of compiled code for such arguments"},
    {Break::CompileFailed, "compile-failed", "{}", "The traced graph could not be compiled.", kDoOutside},
    {Break::TraceDoesNotServe, "trace-does-not-serve",
     "the function is traced, but the trace does not serve the call that it was made for: {}",
     "The function changes an object that its own guards check.", "keep the change outside of the compiled function"},
};

}  // namespace

std::span<const BreakRow> frames_rows() { return kRows; }

}  // namespace vesta::capture
