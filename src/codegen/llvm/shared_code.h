// Code that kernels share: a process compiles a shared function once, and each kernel that calls it has a copy of its
// machine code, so that a kernel's object refers to nothing but library functions.
#pragma once

#include <map>

#include "codegen/llvm/kernel.h"
#include "codegen/llvm/module.h"
#include "codegen/llvm/shared_function.h"

namespace vesta::codegen {

// Gives the shared functions that a kernel's function calls, by name, their code. It lies in front of the function's
// own code (LLVM calls this prefix data). A shared function whose code refers to constants in memory becomes a function
// of the kernel's module. Throws what `memory` throws.
void link_shared_functions(const std::map<std::string, SharedFunction>& shared, llvm::Function& function,
                           const Target& target, llvm::TargetMachine& machine, const MemoryBound& memory,
                           const DumpTo& dump_to);

}  // namespace vesta::codegen
