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
    Strided,   // a row begins as far from the row before it as each other one
    Clamped,   // the same, but those after the last row are the last row again
    Together,  // the words of a step of all rows lie beside each other
    Pointers,  // a row may begin anywhere
  };
  int64_t rows = 0, vectors = 0;  // of the tile; a vector has `lanes` columns
  int lanes = 0;
  Rows form = Rows::Strided;
  int64_t row_words = 0;      // Rows::Together: words from a step to the next one
  bool pairs = false;         // of BF16
  bool ends_in_half = false;  // the last step may have one element instead of two
  int64_t windows = 0;        // loops around the steps, whose products a register adds up, too
};

// The arguments. Distances in bytes, counts and flags are 64-bit integers. Those that the code does not need are null.
struct MicroKernelOperands {
  llvm::Value *sums = nullptr, *sums_bytes = nullptr;  // an address; from a row of sums to the next one
  llvm::Value* adds = nullptr;                         // 1: the products are added to the sums that are there
  // The address of the first row's first step, or of the rows' pointers; from row to row, or from the pointers to the
  // first step.
  llvm::Value *rows = nullptr, *row_bytes = nullptr;
  llvm::Value* last_row = nullptr;                          // Rows::Clamped: counts from the first row
  llvm::Value *columns = nullptr, *column_bytes = nullptr;  // the address of the first step; from step to step
  llvm::Value* steps = nullptr;
  llvm::Value* half = nullptr;  // 1: the last step has one element
  // Memory that is read later: an address; from step to step; steps in whose number these bits are 0 fetch a line.
  llvm::Value *fetched = nullptr, *fetched_bytes = nullptr, *mask = nullptr;
  struct Window {
    llvm::Value *times = nullptr, *row_bytes = nullptr, *column_bytes = nullptr;
  };
  std::vector<Window> windows;  // the outer ones first
};

SharedFunction shared_function(const MicroKernel& kernel);
std::vector<llvm::Value*> arguments(const MicroKernel& kernel, const MicroKernelOperands& operands);

}  // namespace vesta::codegen
