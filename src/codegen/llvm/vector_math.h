// Functions on float, as instructions: polynomials and range reductions that hold to one or two ulp, with
// the special values of the C library (tests/unit/codegen_math.cpp measures them).
#pragma once

#include <functional>
#include <span>

#include "codegen/llvm/primitives.h"

namespace vesta::codegen {

class VectorMath {
 public:
  VectorMath(llvm::IRBuilder<>& builder, Primitives& primitives) : b_(builder), p_(primitives) {}
  // p(x), or null when there is no polynomial for p.
  llvm::Value* compute(Prim p, llvm::Value* x);
  // Rem or Mod of F32 or F64, exactly; null where the machine cannot.
  llvm::Value* remainder(Prim p, DType t, llvm::Value* a, llvm::Value* b);

 private:
  llvm::Value* exp(llvm::Value* x);
  llvm::Value* exp2(llvm::Value* x);
  llvm::Value* expm1(llvm::Value* x);
  llvm::Value* log(Prim p, llvm::Value* x);
  llvm::Value* log1p(llvm::Value* x);
  llvm::Value* sine(llvm::Value* x, bool cosine);
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* erf(llvm::Value* x);
  llvm::Value* erf_by_table(llvm::Value* x);

  // special_math.cpp
  llvm::Value* erfinv(llvm::Value* x);
  llvm::Value* lgamma(llvm::Value* x);
  llvm::Value* digamma(llvm::Value* x);
  llvm::Value* log_of_double(llvm::Value* x);
  struct Turn {
    llvm::Value* sine;
    llvm::Value* cosine;
  };
  Turn turn(llvm::Value* x);  // of pi times a double, but for the sign that odd multiples of pi give both

  // `result`, but all of what `otherwise` computes where `rare` is true in some lane: the code for it is out of the
  // way.
  llvm::Value* unless(llvm::Value* rare, llvm::Value* result, const std::function<llvm::Value*()>& otherwise);

  // Whether x fills a register of AVX-512, which has instructions that others lack.
  bool is_avx512(llvm::Value* x) const;
  // In a table of 16 floats in one such register, by the low four bits of each lane.
  llvm::Value* look_up(std::span<const float> table, llvm::Value* index);

  // exp(x) = (1 + tail) * 2^n for |x| < 2^22: the parts.
  struct ExpParts {
    llvm::Value* n;      // integer
    llvm::Value* whole;  // the same as a float
    llvm::Value* r;      // the reduced argument
    llvm::Value* tail;   // exp(r) - 1 - r
  };
  ExpParts exp_parts(llvm::Value* x);
  // x = 2^k * (1 + f) for a positive normal x, with 1 + f around 1; and log(x), of n = k as a float.
  struct LogParts {
    llvm::Value* k;
    llvm::Value* f;
  };
  LogParts log_parts(llvm::Value* x);
  llvm::Value* log_of_parts(llvm::Value* n, llvm::Value* f);

  llvm::Value* power_of_two(llvm::Value* n);                               // n in [-126, 127]
  llvm::Value* scale(llvm::Value* x, llvm::Value* n, llvm::Value* whole);  // x * 2^n for any n in [-252, 254]
  llvm::Value* exp_in_range(llvm::Value* x);                               // no overflow, no denormals

  llvm::Value* number(llvm::Value* like, double v) { return p_.number(like->getType(), v); }
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> highest_first);
  llvm::Value* at_most(llvm::Value* x, double high);
  llvm::Value* clamp(llvm::Value* x, double low, double high);
  llvm::Type* integers(llvm::Value* x);
  llvm::Value* with_sign_of(llvm::Value* x, llvm::Value* sign);

  llvm::IRBuilder<>& b_;
  Primitives& p_;
};

}  // namespace vesta::codegen
