// The scalar primitives (base/prim.h) as LLVM instructions on scalars or vectors of any length. A value of type F16 or
// BF16 is held as float; Bool is i1.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <span>

#include "base/prim.h"
#include "base/target.h"
#include "base/type.h"

namespace vesta::codegen {

class Primitives {
 public:
  Primitives(llvm::IRBuilder<>& builder, llvm::Module& module, const Target& target)
      : b_(builder), m_(module), target_(target) {}
  const Target& target() const { return target_; }

  // The types of a value in registers and in memory. lanes == 1 means a scalar.
  llvm::Type* register_type(DType t, int lanes) const;
  llvm::Type* memory_type(DType t, int lanes) const;
  static int lanes_of(llvm::Value* v);

  llvm::Value* number(llvm::Type* type, double v) const;    // floats
  llvm::Value* integer(llvm::Type* type, int64_t v) const;  // integers, i1
  llvm::Value* constant(DType t, double f,
                        int64_t i) const;  // a scalar of this type, converted as constants of the IR are

  llvm::Value* compute(Prim p, DType t, llvm::Value* a, llvm::Value* b = nullptr, llvm::Value* c = nullptr);
  llvm::Value* one_plus_erf(llvm::Value* x);  // as in VectorMath
  llvm::Value* cast(DType from, DType to, llvm::Value* v);
  // The bits in memory of values that are BF16: the upper halves of the floats in registers.
  llvm::Value* bits_of_bf16(llvm::Value* v);
  // Loads so many neighbours of the first dtype and converts them to each of the other dtypes in turn.
  llvm::Value* load_converted(std::span<const DType> types, int elements, llvm::Value* from);
  llvm::Value* from_memory(DType t, llvm::Value* v);  // converts a loaded element to a register value
  llvm::Value* to_memory(DType t, llvm::Value* v);
  // Rounds floats to BF16. Each 32-bit word has the element in its upper half; its lower half is undefined.
  llvm::Value* round_bf16(llvm::Value* v);

  // Pairs of BF16 are words that are held as floats. sum + the products of both elements of each pair, if the target
  // adds pairs in vectors of this length.
  bool adds_pairs(int lanes) const;
  llvm::Value* add_pairs(llvm::Value* a, llvm::Value* b, llvm::Value* sum);
  llvm::Value* element_of_pair(llvm::Value* word, int64_t element);
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  // Calls the vector or lane function for p.
  llvm::Value* call_function(Prim p, DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* sub_vector(llvm::Value* v, int first, int count);
  llvm::Value* concat(llvm::Value* low, llvm::Value* high);
  // Prefetches into a cache level (1: LLVM's locality 3) for a read soon to come. An address without memory is
  // harmless.
  void prefetch(llvm::Value* pointer, unsigned cache_level = 1);
  // An alloca at the beginning of the function.
  llvm::AllocaInst* stack(llvm::Type* type, const char* name);

 private:
  llvm::Value* float_compute(Prim p, DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* integer_compute(Prim p, DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* divide(Prim p, DType t, llvm::Value* a, llvm::Value* b);
  llvm::Type* like(llvm::Type* scalar, llvm::Value* v) const;
  llvm::Value* round_to_half_bits(DType t, llvm::Value* v);
  llvm::Value* widen_half(DType t, llvm::Value* bits);

  llvm::IRBuilder<>& b_;
  llvm::Module& m_;
  const Target& target_;
};

}  // namespace vesta::codegen
