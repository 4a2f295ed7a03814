// Compiles a kernel's text to an ELF object with LLVM, on the calling thread.
#pragma once

#include <functional>
#include <string>

#include "codegen/llvm/module.h"

namespace vesta::codegen {

// What is told how large a kernel becomes, and may throw to refuse it.
struct MemoryBound {
  std::function<void(int64_t instructions)> grows = [](int64_t) {};                   // while its function is emitted
  std::function<void(const llvm::Function&)> emitted = [](const llvm::Function&) {};  // before LLVM makes code of it
  std::function<void()> made = [] {};  // after LLVM has made code of a function that kernels share
};

// Throws InternalError. Of the target, only the fields that code depends on are read.
std::string make_object(const std::string& text, const std::string& symbol, const Target& target,
                        const MemoryBound& memory, const DumpTo& dump_to = {});

}  // namespace vesta::codegen
