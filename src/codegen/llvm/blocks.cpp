#include "codegen/llvm/blocks.h"

namespace vesta::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

BasicBlock* new_block(llvm::IRBuilder<>& b, const char* name) {
  return BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}

}  // namespace

void emit_loop(llvm::IRBuilder<>& b, Value* from, Value* to, int64_t step, bool runs,
               const std::function<void(Value*)>& body) {
  BasicBlock *const before = b.GetInsertBlock(), *const head = new_block(b, "body"), *const exit = new_block(b, "exit");
  if (runs) {
    b.CreateBr(head);
  } else {
    b.CreateCondBr(b.CreateICmpSLT(from, to), head, exit);
  }
  b.SetInsertPoint(head);
  llvm::PHINode* const i = b.CreatePHI(b.getInt64Ty(), 2);
  body(i);
  Value* const next = b.CreateAdd(i, b.getInt64(static_cast<uint64_t>(step)), "", true, true);
  i->addIncoming(from, before);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, to), head, exit);
  b.SetInsertPoint(exit);
}

void emit_if(llvm::IRBuilder<>& b, Value* condition, const std::function<void()>& body) {
  BasicBlock *const then = new_block(b, "then"), *const after = new_block(b, "after");
  b.CreateCondBr(condition, then, after);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

}  // namespace vesta::codegen
