// Splits runs of two vectors into even and odd elements (Shape::pairs) and joins them again.
#include "codegen/llvm/emitter.h"

namespace vesta::codegen {

using llvm::Value;
using loops::Instr;
using loops::Ref;

namespace {
constexpr int64_t kUpperHalf = -0x10000;  // of a 32-bit word: its second element
}

// Piece u of the run at `pointer`. The other piece comes from the same load and is kept for its own request.
Value* Emitter::load_pair(DType t, Value* pointer, Ref r, int u) {
  const llvm::Align align(static_cast<uint64_t>(element_size(t)));
  std::array<Value*, 2> half{};
  if (t == DType::BF16) {
    llvm::Type* word = p_.register_type(DType::I32, lanes_);
    llvm::Type* f32 = p_.register_type(DType::F32, lanes_);
    Value* words = b_.CreateAlignedLoad(word, pointer, align);
    half[0] = b_.CreateBitCast(b_.CreateShl(words, uint64_t{16}), f32);
    half[1] = b_.CreateBitCast(b_.CreateAnd(words, p_.integer(word, kUpperHalf)), f32);
  } else {
    Value* run = b_.CreateAlignedLoad(p_.memory_type(t, 2 * lanes_), pointer, align);
    for (int odd = 0; odd < 2; ++odd) {
      llvm::SmallVector<int, 64> order;
      for (int l = 0; l < lanes_; ++l) order.push_back(2 * l + odd);
      half[static_cast<size_t>(odd)] = p_.from_memory(t, b_.CreateShuffleVector(run, order));
    }
  }
  const auto own = static_cast<size_t>(u % 2);
  scopes_[scope_index(shape_.level[r])].values[{r, u ^ 1}] = half[1 - own];
  return half[own];
}

// The elements of pieces u - 1 and u of a store, in the order of memory.
Value* Emitter::stored_pair(const Instr& i, int u) {
  if (i.dtype == DType::BF16) {
    const Stored from = source(i);
    std::array<Value*, 2> half{};
    for (int odd = 0; odd < 2; ++odd) {
      Value* v = lanes(from.value, u - 1 + odd);
      at(shape_.innermost);
      half[static_cast<size_t>(odd)] =
          from.exact ? b_.CreateBitCast(v, p_.register_type(DType::I32, lanes_)) : p_.round_bf16(v);
    }
    llvm::Type* word = half[0]->getType();
    Value* words =
        b_.CreateOr(b_.CreateLShr(half[0], uint64_t{16}), b_.CreateAnd(half[1], p_.integer(word, kUpperHalf)));
    return b_.CreateBitCast(words, p_.memory_type(DType::BF16, 2 * lanes_));
  }
  Value* even = stored(i, u - 1, true);
  Value* odd = stored(i, u, true);
  llvm::SmallVector<int, 64> order;
  for (int l = 0; l < 2 * lanes_; ++l) order.push_back(l / 2 + (l % 2) * lanes_);
  return b_.CreateShuffleVector(even, odd, order);
}

}  // namespace vesta::codegen
