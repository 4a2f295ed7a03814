// Iterators.
#include "capture/python/breaks/families.h"

namespace vesta::capture {
namespace {

constexpr BreakRow kRows[] = {
    {Break::OuterIterator, "outer-iterator",
     "advances or reads an iterator that was made outside of the compiled function",
     "Vesta cannot undo a step of an iterator.",
     "pass a list or a tuple, or make the iterator inside of the compiled function"},
};

}  // namespace

std::span<const BreakRow> iterators_rows() { return kRows; }

}  // namespace vesta::capture
