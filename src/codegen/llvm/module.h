// One kernel as an LLVM module with one function, ready for code generation.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "base/target.h"
#include "loops/kernel.h"

namespace vesta::codegen {

// The kernel's expression context is extended: it must belong to this thread.
std::unique_ptr<llvm::Module> build_module(loops::Kernel kernel, const std::string& symbol, const Target& target,
                                           llvm::LLVMContext& context, llvm::TargetMachine& machine);

}  // namespace vesta::codegen
