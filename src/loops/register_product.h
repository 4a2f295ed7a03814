// Matrix products whose sums a CPU keeps in registers. The last two Parallel ranges of their kernel are the row and the
// column; the column is the vector. The kernel has one loop, which adds up products of two F32 values: one depends on
// the row and not on the column, the other one on the column and not on the row. Both may be computed from several
// loads, or be BF16 values that are widened (RegisterTile::pairs). Ranges before the row are other products. There may
// be several Inner ranges, as a convolution has: one for the rows of its window, and one for the pixels and channels of
// such a row, which lie together in memory.
//
// The order of the loops is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008):
// the Inner ranges but the last one, slices of the last one, then tiles of columns, then tiles of rows. A row that is
// read where it lies may begin anywhere: each row of a tile has a pointer of its own, so that the rows of a convolution
// are its pixels, as in Dukhan, "The Indirect Convolution Algorithm" (2019).
#pragma once

#include "loops/kernel.h"

namespace vesta::loops {

inline constexpr int64_t kRegisterPiece = 256;    // steps whose products a register adds up one after another
inline constexpr int64_t kMostRegisterSums = 28;  // vectors of a tile's sums; the other registers hold operands
// Of registers for matrices (RegisterTile::depth): the rows of one, its columns of four bytes, and how many of them a
// tile's rows and columns take at most. Four hold sums, two operands of rows, and two operands of columns.
inline constexpr int64_t kMatrixRows = 16, kMatrixColumns = 16, kMostMatrices = 2;
inline constexpr int64_t kMatrixWindow = 1152;  // steps of several Inner ranges that matrices add up together

struct RegisterSum {
  Ref sum = kNoRef;     // Accumulate
  Ref row = kNoRef;     // the factor that depends on the row
  Ref column = kNoRef;  // the factor that depends on the column
  // Both factors are BF16, in this dtype and not yet widened; otherwise they are F32.
  bool of_bf16 = false;
};

// The sum of a loop of these instructions. nullopt: the loop does not have this form.
std::optional<RegisterSum> register_sum(std::span<const Instr> instrs, std::span<const Ref> loop, Expr row,
                                        Expr column);
std::optional<RegisterSum> register_sum(const Kernel& k);

// Whether r loads an element of the operands' type, without a mask, of a buffer that the kernel does not write, and the
// element for the next value of `var` is the next one in memory.
bool reads_along(const Kernel& k, Ref r, Expr var);
// The load of a factor whose elements for consecutive values of `var` are neighbours in memory. The factor is this load
// or a cast of it. The load has no mask, and the kernel does not write its buffer. kNoRef: there is no such load.
Ref loaded_along(const Kernel& k, Ref factor, Expr var);
// The columns of a panel, if the index has them in panels, of which the last one may have columns past the end: c // 32
// selects a panel, and c % 32 one of its columns. 0: it has not.
int64_t panel_columns(Expr index, Expr column);
// Elements from a step of a column's operand to its next step; nullopt: they differ.
std::optional<Expr> step_of_columns(const Kernel& k, const RegisterSum& sum);
// Whether tiles can read an operand where it is. The elements of a row along the last Inner range must be neighbours in
// memory, and in each row the other Inner ranges must have the same strides. The columns of each tile must be
// neighbours, and with pairs the two elements of a column's step, too; they must fill whole tiles or lie in panels, and
// the index must be linear in the other Inner ranges.
bool reads_rows_in_place(const Kernel& k, const RegisterSum& sum);
bool reads_columns_in_place(const Kernel& k, const RegisterSum& sum);

// Whether rows that are read in place begin at places that no stride gives. Then a work item computes a pointer for
// each.
bool rows_have_pointers(const Kernel& k, const RegisterSum& sum);

// Whether a kernel with these operands and registers for matrices must pack its rows: such a register is loaded from
// rows that are equally far apart, and a last pair without a second element is filled up.
bool matrices_need_packed_rows(const Kernel& k, const RegisterSum& sum);

// The rows of the tiles that follow the whole tiles of a product of so many rows, which do not fill its tiles: the rows
// that are left, or half a tile where their number is symbolic.
int64_t rows_of_last_tile(const RegisterTile& tile, Expr rows);
// How many of a tile's vectors are computed where the other ones lie past the last column.
inline int64_t vectors_of_few_columns(int64_t vectors) { return (vectors + 1) / 2; }

// A thread's scratch: the byte at which each part begins, and its size.
struct RegisterScratch {
  // The packed rows of a block and a slice: [row][packed_row_pitch], or [tile of rows][step][row]; for matrices [16
  // rows][instruction][row][16 steps], of which an instruction reads the first ones.
  Expr rows;
  Expr columns;   // the packed columns of a tile and a slice: [step][column]
  Expr sums;      // of a tile, or of all tiles of a work item where there are several slices: [tile][row][column]
  Expr pointers;  // of the rows of a block, and of a tile past its end
  Expr bytes;
};
// Whether the last step of the inner space has one element instead of two.
bool ends_in_half_step(const Kernel& k);
RegisterScratch register_scratch(const Kernel& k, const RegisterSum& sum);
// Steps of a packed row, of four bytes each. Where rows lie one after another, it is no power of two, because rows
// would then share a set of the cache.
int64_t packed_row_pitch(const Kernel& k);
// Whether the inner space is not divided into slices. Several Inner ranges are one slice if a register adds up all of
// their products, one after another. With registers for matrices, steps that are too few for an instruction are a slice
// of their own.
bool has_one_slice(const Kernel& k);

}  // namespace vesta::loops
