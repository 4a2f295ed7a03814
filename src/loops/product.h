// Matrix products that tensor cores compute. Their kernel has the ranges row, column and inner, in this order, and one
// loop, which sums products of two elements, exact in F32: one element of an operand's row and one of the other
// operand's row (a "column" of the result).
//
// A block's threads are producers, which copy slices of both operands to shared memory, and consumers, whose tensor
// cores multiply them. The other stages run for each element of the block's tile when its sums are complete.
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

// The rows of an operand that one load reads: those for which its condition holds and the conditions of the pieces
// before it do not.
struct ProductPiece {
  Ref load = kNoRef;
  Ref condition = kNoRef;  // a Bool that depends on the column; kNoRef: all other rows
};

struct ProductSum {
  Ref sum = kNoRef;                   // Accumulate
  Ref row = kNoRef;                   // the load that depends on the row and the inner variable
  std::vector<ProductPiece> columns;  // the loads that depend on the column and the inner variable
};

// The sums of a loop of these instructions, which have the same row. Empty: the loop does not have this form.
std::vector<ProductSum> product_sums(std::span<const Range> ranges, std::span<const Instr> instrs,
                                     std::span<const Ref> loop);
std::vector<ProductSum> product_sums(const Kernel& k);
// The loads of a sum: its row's, then its columns'.
std::vector<Ref> loads_of(const ProductSum& sum);

inline constexpr int64_t kProductElement = 2;  // bytes
// Inner elements that are copied at once, and their bytes.
inline constexpr int64_t kProductPiece = 8, kProductPieceBytes = kProductPiece * kProductElement;
inline constexpr int64_t kMostProductColumns = 256;  // of all sums of a tile: one instruction multiplies them

// Threads of a block that copy and that multiply.
inline constexpr int64_t kProductCopiers = 128, kProductConsumers = 256;
inline constexpr int64_t kProductThreads = kProductCopiers + kProductConsumers;
// Bytes of shared memory for a tile of so many sums.
int64_t product_bytes(const ProductTile& tile, size_t sums);
// Floats from one row of a tile's sums to the next, and of all its sums in shared memory.
int64_t product_pitch(const ProductTile& tile, size_t sums);

}  // namespace vesta::loops
