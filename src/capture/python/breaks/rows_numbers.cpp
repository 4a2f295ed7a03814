// Numbers and strings.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::SymbolicNumber, "symbolic-number",
     "uses a number that changes from call to call where only a constant works",
     "Vesta traces the function again with constants in place of symbolic sizes.",
     "pass the number to operators of tensors only", Then::TraceWithoutSymbols},
    {Break::ChangingNumber, "changing-number", "needs the value of a number or string that changes from call to call",
     "One graph serves all values only if no code asks which value it is.",
     "pass the number to operators of tensors, or use it outside of the compiled function"},
    {Break::ChangingNumberInContainer, "changing-number-in-container",
     "reads a container that holds a number or string that changes from call to call",
     "C code reads the container as a whole, so the number would be a constant of the graph.",
     "pass the number to operators of tensors, or use it outside of the compiled function"},
    {Break::ForeignSymbol, "foreign-symbol", "uses a symbolic number of another trace",
     "The number has no value in this trace.", "call the function with plain numbers"},
    {Break::IdentityOfEqualNumbers, "identity-of-equal-numbers", "compares equal numbers or strings by identity",
     "Python may keep equal numbers as one object or as two, and the trace does not know which.",
     "compare them with =="},
    {Break::AddressOfNewObject, "address-of-new-object", "asks for the address of a new object",
     "The object has another address in each call.", "use a key of your own in place of id() or the default hash"},
};

}  // namespace

std::span<const BreakRow> numbers_rows() { return kRows; }

}  // namespace vesta::capture
