// Objects that live on after a graph.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::NotRebuilt, "not-rebuilt", "cannot rebuild an object of class {} after the graph",
     "The object is made in the trace, and the program needs one of its own after each run of the graph.",
     "make the object outside of the compiled function"},
    {Break::NewTypeNotRebuilt, "new-type-not-rebuilt",
     "cannot rebuild {} of a class that the compiled function itself makes",
     "The class is another object in each call.", kMakeClassOutside},
    {Break::SelfReferenceNotRebuilt, "self-reference-not-rebuilt", "cannot rebuild an object that holds itself",
     "Its parts must exist before it, and it must exist before its parts.",
     "make the object outside of the compiled function"},
    {Break::NestingTooDeep, "nesting-too-deep", "cannot rebuild objects that are nested too deeply",
     "Vesta rebuilds a limited number of levels.", "return a flatter structure"},
    {Break::ItemsNotRead, "items-not-read", "cannot read the items of an object after the trace",
     "Reading them raised an exception.", "return a list, tuple or dict"},
    {Break::ManyItemsAtExit, "many-items-at-exit", "writes or returns a container of very many items",
     "Each item would be rebuilt after each run.", "return a tensor in place of a long list"},
    {Break::KeysWithHashAtExit, "keys-with-hash-at-exit",
     "writes or returns a dict or set whose members have a __hash__ of their own",
     "Rebuilding it would run code of the program once more.", "use strings or numbers as keys"},
    {Break::ValueNotRead, "value-not-read", "cannot read the value of {} after the trace",
     "It has no value that a later call can compute.", "compute it outside of the compiled function"},
    {Break::UnknownTensor, "unknown-tensor", "uses a tensor of unknown origin",
     "It was neither an input of the function nor made by it.", "pass the tensor as an argument"},
    {Break::SymbolicFloat, "symbolic-float", "returns a symbolic floating-point number",
     "The graph returns tensors and integers.", "return a tensor"},
};

}  // namespace

std::span<const BreakRow> exits_rows() { return kRows; }

}  // namespace vesta::capture
