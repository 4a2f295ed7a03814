// Calls of functions.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr std::string_view kCallOutside =
    "call it outside of the compiled function; the code before and after this line is compiled";

// Name, what the program does, why Vesta cannot compile it, what to do (BreakRow). Trace::graph_break gives the values
// for {}.
constexpr BreakRow kRows[] = {
    {Break::UnknownFunction, "unknown-function", "calls {}, a function written in C that Vesta does not know",
     "Vesta cannot see what a C function reads and writes, so it traces only the C functions in its table.",
     kCallOutside},
    {Break::Print, "print", "calls {}, which writes to a file",
     "A graph cannot write to a file in the middle of its run.",
     "print after the compiled function has returned, or leave the break: the code before and after it is compiled"},
    {Break::FunctionArgument, "function-argument",
     "passes {} to another function, and Vesta does not know that it is safe to call",
     "A function that is written in C may be called by the code that receives it, and Vesta cannot see what it does.",
     kCallOutside},
    {Break::UnsupportedArguments, "unsupported-arguments", "calls {} with arguments that Vesta does not support",
     "Vesta knows what this function reads for its usual arguments only.", kCallOutside},
    {Break::UntraceableFunction, "untraceable-function", "calls or reads {}, which {}",
     "The result depends on memory or on facts that a trace does not have, or the call changes an object that the "
     "graph cannot change.",
     kCallOutside},
    {Break::CompilingDisabled, "compiling-disabled", "calls {}, for which compiling is disabled{}",
     "The program asks by vesta.disable or torch.compiler.disable that this function runs in Python.",
     "remove the decorator, or call the function outside of the compiled function"},
    {Break::RequestedBreak, "requested-break", "calls {}, which asks for a graph break",
     "The program asks for a break at this line.", "remove the call"},
    {Break::CachedResultMissing, "cached-result-missing",
     "calls {}, a function that keeps its results and has none for these arguments",
     "functools.lru_cache would run the function and store a result; the next call finds the result and is traced "
     "again.",
     "call the function once before the compiled function with these arguments", Then::TraceEachTime},
    {Break::NewCachedFunction, "new-cached-function",
     "calls {}, a function with a cache that the compiled function itself makes",
     "The cache is new in each call, so its results cannot be guarded.",
     "make the cached function outside of the compiled function"},
    {Break::CachedFunctionArguments, "cached-function-arguments",
     "calls a cached function with arguments that are neither numbers, strings nor known objects",
     "functools.lru_cache compares its arguments by hash and equality, which may run any code.",
     "pass numbers or strings to the cached function"},
    {Break::CachedFunctionPassed, "cached-function-passed", "passes a cached function to another function",
     "The code that receives it may call it, and a cache that changes cannot be guarded there.",
     "call the cached function itself, or pass a plain Python function"},
    {Break::OrderedDictMethod, "ordered-dict-method", "calls a method of dict on an OrderedDict",
     "The method changes the dict and not the order that the OrderedDict keeps.", "call the method of OrderedDict"},
    {Break::NumPyArguments, "numpy-arguments", "calls numpy with arguments that are not numbers",
     "A graph holds PyTorch's operators only.", "use the torch function of the same name"},
    {Break::NumPyArray, "numpy-array", "calls numpy, which makes an array", "A graph holds PyTorch's operators only.",
     "use the torch function of the same name"},
    {Break::Coroutine, "coroutine", "runs a coroutine",
     "A coroutine may be suspended, and the event loop decides when it goes on.",
     "compile the functions that the coroutine calls"},
    {Break::CompilerEntered, "compiler-entered", "enters PyTorch's compiler by {}",
     "Vesta does not trace PyTorch's own compilers.", "call it outside of the compiled function"},
    {Break::HigherOrderOperator, "higher-order-operator", "calls the higher-order operator {} {}",
     "There, PyTorch runs another kernel of the operator than the one that Vesta traces.", kDoOutside},
    {Break::HigherOrderKernel, "higher-order-kernel",
     "calls the higher-order operator {}, which has no kernel in Python",
     "Vesta traces a higher-order operator through its Python kernel.", kDoOutside},
    {Break::WeakReferenceCallback, "weak-reference-callback", "makes a weak reference with a callback",
     "The callback would run for the objects of the trace.",
     "make the weak reference outside of the compiled function"},
    {Break::WeakReferenceToNewObject, "weak-reference-to-new-object", "makes a weak reference to a new object",
     "The object exists only in the trace, so the reference would be dead after it.",
     "make the weak reference outside of the compiled function"},
};

}  // namespace

std::span<const BreakRow> calls_rows() { return kRows; }

}  // namespace vesta::capture
