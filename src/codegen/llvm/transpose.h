// Transposes in registers.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "base/type.h"
#include "codegen/llvm/shared_function.h"

namespace vesta::codegen {

// Transposes a square of as many vectors as each has elements.
void transpose_square(llvm::IRBuilder<>& builder, std::vector<llvm::Value*>& rows);

// A function that transposes `lanes` rows in memory: element k of row r goes to place [k][r]. It reads elements of
// types[0] and converts them to each of the other types in turn. With `pairs`, an element is a word of two BF16.
struct TransposedRows {
  int lanes = 0;
  std::vector<DType> types;
  bool pairs = false;
};
// The arguments. Distances are in bytes.
struct TransposedRowsOperands {
  llvm::Value *from = nullptr, *from_bytes = nullptr;  // the address of the first row; the distance of rows
  llvm::Value* last_row = nullptr;                     // the function reads this row in place of each later one
  llvm::Value *to = nullptr, *to_bytes = nullptr;      // the address of place [0][0]; the distance from [k] to [k + 1]
  llvm::Value* count = nullptr;                        // elements of a row; at least `lanes`
};
SharedFunction shared_function(const TransposedRows& rows);
std::vector<llvm::Value*> arguments(const TransposedRowsOperands& operands);

}  // namespace vesta::codegen
