// Loops and branches of functions that are written from their beginning to their end. Emitter::loop, which also moves
// invariant code out of loops, is for kernels.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace vesta::codegen {

// Runs the body for from, from + step, ... below `to`, which are 64-bit integers. `runs`: from < to is
// known to hold.
void emit_loop(llvm::IRBuilder<>& builder, llvm::Value* from, llvm::Value* to, int64_t step, bool runs,
               const std::function<void(llvm::Value*)>& body);
// Runs the body where the condition, an i1, holds.
void emit_if(llvm::IRBuilder<>& builder, llvm::Value* condition, const std::function<void()>& body);

}  // namespace vesta::codegen
