// Squares of elements that are turned in registers.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "base/type.h"
#include "codegen/llvm/shared_function.h"

namespace vesta::codegen {

// Transposes a square of as many vectors as each has elements.
void turn_square(llvm::IRBuilder<>& builder, std::vector<llvm::Value*>& rows);

// Copies rows that lie apart to columns: elements of types[0], which are converted to the other types one after
// another, or with `pairs` words of two BF16. Element k of row r goes to place [k][r].
struct TurnedRows {
  int lanes = 0;  // so many rows
  std::vector<DType> types;
  bool pairs = false;
};
struct TurnedRowsOperands {
  llvm::Value *from = nullptr, *from_bytes = nullptr;  // the first row; from row to row
  llvm::Value* last_row = nullptr;                     // rows after this one are this one again
  llvm::Value *to = nullptr, *to_bytes = nullptr;      // from k to k + 1
  llvm::Value* count = nullptr;                        // of elements or words of a row; at least `lanes`
};
SharedFunction shared_function(const TurnedRows& rows);
std::vector<llvm::Value*> arguments(const TurnedRowsOperands& operands);

}  // namespace vesta::codegen
