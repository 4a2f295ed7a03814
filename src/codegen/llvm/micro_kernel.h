// The innermost part of a matrix product: adds up the products of a tile of rows and columns in registers
// (loops/register_product.h). It is a function of its own, because kernels share it (shared_code.h). The word is that
// of Van Zee and van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality" (2015).
//
// A step is a word of 4 bytes of a row and of each column: a float, or two BF16, which are held as a float where they
// are only moved.
#pragma once

#include <vector>

#include "codegen/llvm/primitives.h"
#include "codegen/llvm/shared_function.h"

namespace vesta::codegen {

inline constexpr int64_t kStepBytes = 4;  // of a row or a column

// What the code of a micro-kernel depends on, besides the target.
struct MicroKernel {
  enum class Rows : uint8_t {
    Strided,   // all rows are equally far apart
    Clamped,   // the same, but the micro-kernel reads the last row in place of each later one
    Together,  // at each step, the words of all rows are neighbours in memory
    Pointers,  // each row has a pointer
  };
  int64_t rows = 0, vectors = 0;  // of the tile; a vector has `lanes` columns
  int lanes = 0;
  Rows form = Rows::Strided;
  int64_t row_words = 0;      // Rows::Together: words from a step to the next one
  bool pairs = false;         // of BF16
  bool ends_in_half = false;  // the last step may have one element instead of two
  int64_t windows = 0;        // loops around the loop of steps; the sums stay in registers
};

// The arguments. Distances are in bytes. Distances, counts and flags are 64-bit integers. Arguments that the code does
// not need are null.
struct MicroKernelOperands {
  llvm::Value *sums = nullptr, *sums_bytes = nullptr;  // the address of the sums; the distance of their rows
  llvm::Value* adds = nullptr;                         // 1: adds the products to the sums in memory; 0: overwrites them
  // The address of the first row and the distance of rows. Rows::Pointers: the address of the pointers, and the
  // distance from each pointer to the row's first step.
  llvm::Value *rows = nullptr, *row_bytes = nullptr;
  llvm::Value* last_row = nullptr;                          // Rows::Clamped: its number, from the first row on
  llvm::Value *columns = nullptr, *column_bytes = nullptr;  // the address of the first step; the distance of steps
  llvm::Value* steps = nullptr;
  llvm::Value* half = nullptr;  // 1: the last step has one element
  // Step s prefetches the cache line at fetched + s * fetched_bytes where (s & mask) == 0.
  llvm::Value *fetched = nullptr, *fetched_bytes = nullptr, *mask = nullptr;
  struct Window {
    llvm::Value *times = nullptr, *row_bytes = nullptr, *column_bytes = nullptr;
  };
  std::vector<Window> windows;  // the outer ones first
};

SharedFunction shared_function(const MicroKernel& kernel);
std::vector<llvm::Value*> arguments(const MicroKernel& kernel, const MicroKernelOperands& operands);

}  // namespace vesta::codegen
