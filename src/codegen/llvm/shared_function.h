// A function that many kernels call (shared_code.h).
#pragma once

#include <llvm/IR/Function.h>

#include <functional>
#include <string>

#include "base/target.h"

namespace vesta::codegen {

struct SharedFunction {
  std::string name;  // a C identifier; equal names mean equal code
  std::function<llvm::FunctionType*(llvm::LLVMContext&)> type;
  std::function<void(llvm::Function&, const Target&)> emit;  // writes the body of a function of this type
};

}  // namespace vesta::codegen
