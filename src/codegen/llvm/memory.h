// How much memory LLVM takes to make code of a function. LLVM can neither be stopped nor survive a failed allocation,
// so this is estimated before. The constants are upper bounds of measurements on the heap of one thread, over the
// kernels of the model zoo and over chains of 10 to 3,200 instructions of each kind, for vectors of 16 to 64 bytes;
// tests/unit/memory_kernels.cpp measures again.
#pragma once

#include <llvm/IR/Function.h>

#include <cstdint>

namespace vesta::codegen {

// No kernel takes less than an estimate divided by this.
inline constexpr int64_t kMostOverestimated = 8;

// An estimate in bytes for any function with so many instructions.
int64_t llvm_memory(int64_t instructions);
// For this one: besides its instructions, its calls, divisions and blocks count.
int64_t llvm_memory(const llvm::Function& f);

}  // namespace vesta::codegen
