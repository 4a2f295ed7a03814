#include "codegen/llvm/memory.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

namespace vesta::codegen {
namespace {

constexpr int64_t kAny = 1 << 20;       // the smallest function: 0.75 MB if the thread has no passes yet, else 0.13 MB
constexpr int64_t kInstruction = 4608;  // 1.7 to 4.1 KB
// Besides:
constexpr int64_t kCall = 5120;          // values that live across it go to the stack and back
constexpr int64_t kDividedLane = 10240;  // processors do not divide vectors of integers: each lane alone, 8 KB

int64_t more(const llvm::Instruction& i) {
  if (llvm::isa<llvm::CallInst>(i) && !llvm::isa<llvm::IntrinsicInst>(i)) return kCall;
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(i.getType());
  return i.isIntDivRem() && vector ? vector->getNumElements() * kDividedLane : 0;
}

}  // namespace

int64_t llvm_memory(int64_t instructions) { return kAny + instructions * kInstruction; }

int64_t llvm_memory(const llvm::Function& f) {
  int64_t bytes = llvm_memory(f.getInstructionCount());
  for (const llvm::Instruction& i : llvm::instructions(f)) bytes += more(i);
  // The passes over the IR take up to 1.1 bytes for each pair of blocks.
  const auto blocks = static_cast<int64_t>(f.size());
  return bytes + blocks * blocks * 5 / 4;
}

}  // namespace vesta::codegen
