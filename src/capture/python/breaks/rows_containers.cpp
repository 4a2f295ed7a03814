// Iterators, containers and objects from outside.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::OuterIterator, "outer-iterator",
     "advances or reads an iterator that was made outside of the compiled function",
     "Vesta cannot undo a step of an iterator.",
     "pass a list or a tuple, or make the iterator inside of the compiled function"},
    {Break::ManyItems, "many-items", "reads a container of very many items", "Each item would be a guard.",
     "pass a tensor in place of a long list"},
    {Break::ManyKeys, "many-keys", "reads a dict of very many items", "Each item would be a guard.",
     "pass a tensor in place of a large dict"},
    {Break::KeysWithHashRead, "keys-with-hash-read", "reads a dict whose keys have a __hash__ or __eq__ of their own",
     "To look up a key, a guard would run code of the program.", "use strings or numbers as keys"},
    {Break::KeysWithHashWritten, "keys-with-hash-written",
     "writes to a dict whose keys have a __hash__ or __eq__ of their own",
     "Writing the key after the graph would run code of the program once more.", "use strings or numbers as keys"},
    {Break::SetOfObjects, "set-of-objects", "reads a set of objects that are neither numbers nor strings",
     "To compare the set, a guard would run code of the program.", "use a set of strings or numbers"},
    {Break::SliceOfObjects, "slice-of-objects", "reads a slice whose bounds are objects",
     "Vesta guards bounds that are numbers.", "use numbers as the bounds"},
    {Break::DequeRead, "deque-read", "reads a deque that was made outside of the compiled function",
     "Vesta has no guard on the items of a deque.", "pass a list"},
    {Break::DefaultDictMethod, "default-dict-method",
     "reads a missing key of a defaultdict whose class has a __missing__ of its own",
     "Vesta follows the default factory only.", "set the key before you read it"},
    {Break::TensorKey, "tensor-key", "looks up a tensor in a dict that was made outside of the compiled function",
     "The tensor in a trace is a fake tensor, which has another hash.", "use a string or a number as the key"},
    {Break::ObjectChanged, "object-changed",
     "changes an object of class {} that was made outside of the compiled function", "Vesta cannot undo the change.",
     "make the object inside of the compiled function, or use a list or a dict"},
    {Break::TruthUnknown, "truth-unknown", "tests the truth of an object of class {}",
     "The class is written in C, and Vesta does not know what bool() reads.",
     "test it outside of the compiled function; the code before and after this line is compiled"},
    {Break::ClosedObject, "closed-object", "uses an object of class {} that was made outside of the compiled function",
     "Vesta has no guard on what such an object holds.", "pass its items in a list or a tuple"},
    {Break::UnknownObject, "unknown-object", "uses an object of class {}, which Vesta does not know",
     "The class is written in C, and Vesta cannot guard what the object holds.",
     "use it outside of the compiled function; the code before and after this line is compiled"},
};

}  // namespace

std::span<const BreakRow> containers_rows() { return kRows; }

}  // namespace vesta::capture
