// Makes an LLVM module with one function from one kernel, ready for code generation.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "base/target.h"
#include "loops/kernel.h"

namespace vesta::codegen {

// Adds expressions to the kernel's context, which must belong to this thread.
std::unique_ptr<llvm::Module> build_module(loops::Kernel kernel, const std::string& symbol, const Target& target,
                                           llvm::LLVMContext& context, llvm::TargetMachine& machine);

}  // namespace vesta::codegen
