// Matrix products that tensor cores compute. Their kernel has the ranges row, column and inner, in this order, and one
// loop, which sums products of two elements, exact in F32: one element of an operand's row and one of the other
// operand's row (a "column" of the result). The elements are of a half type, or of the float8 types e4m3fn and e5m2.
//
// Tensor cores add up products of float8 with fewer bits than F32 has (on GPUs of compute capability 9.0, about 14). So
// the sum of each slice's products is added to a sum in F32, as cuBLAS does without fast accumulation.
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

// Whether tensor cores multiply elements of these types.
bool can_multiply(DType row, DType column);
// The types of a sum's row and of its columns.
struct ProductTypes {
  DType row = DType::Other, column = DType::Other;
};
ProductTypes product_types(std::span<const Instr> instrs, const ProductSum& sum);

// Bytes that are copied at once, and the inner elements that they hold.
inline constexpr int64_t kProductPieceBytes = 16;
int64_t product_piece(DType element);
inline constexpr int64_t kMostProductColumns = 256;  // of all sums of a tile: one instruction multiplies them
// The registers in which a thread of a tile adds up, and their limit.
int64_t product_registers(const ProductTile& tile, size_t sums, DType element);
inline constexpr int64_t kMostProductRegisters = 168;

// Threads of a block that copy and that multiply.
inline constexpr int64_t kProductCopiers = 128, kProductConsumers = 256;
inline constexpr int64_t kProductThreads = kProductCopiers + kProductConsumers;
// Bytes of shared memory for a tile of so many sums.
int64_t product_bytes(const ProductTile& tile, size_t sums);
// Floats from one row of a tile's sums to the next, and of all its sums in shared memory.
int64_t product_pitch(const ProductTile& tile, size_t sums);

}  // namespace vesta::loops
