// Values that are the same for neighbours along a range. A GPU's thread computes a number of neighbours at once, of
// which the first is at a multiple of this number.
#pragma once

#include <span>
#include <vector>

#include "loops/kernel.h"

namespace vesta::loops {

// By instruction: it is an index along the range that is only compared (x < c, x >= c) with multiples of `each`, as the
// pieces of a concatenation compare it. Such a comparison has one result for `each` neighbours, that of the first.
std::vector<char> indices_of_pieces(std::span<const Instr> instrs, Expr range, int64_t each);

// By instruction: its value differs between neighbours along the range. Instructions come after their operands.
std::vector<char> differing(std::span<const Instr> instrs, Expr range, int64_t each);

}  // namespace vesta::loops
