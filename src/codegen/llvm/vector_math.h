// Functions on float as instructions: polynomials and range reductions, accurate to one or two ulp, with the special
// values of the C library (tests/unit/codegen_math.cpp measures them).
#pragma once

#include <functional>
#include <span>

#include "codegen/llvm/primitives.h"

namespace vesta::codegen {

class VectorMath {
 public:
  VectorMath(llvm::IRBuilder<>& builder, Primitives& primitives) : b_(builder), p_(primitives) {}
  // p(x), or nullptr if there is no polynomial for p.
  llvm::Value* compute(Prim p, llvm::Value* x);
  // 1 + erf(x) of F32, to within 2e-7; nullptr where the sum of the two takes no longer.
  llvm::Value* one_plus_erf(llvm::Value* x);
  // Rem or Mod of F32 or F64, exact; nullptr if the processor cannot.
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
  Turn turn(llvm::Value* x);  // of pi times a double, except for the sign that odd multiples of pi give both

  // `result`, or all of `otherwise` if `rare` is true in some lane. The code for `otherwise` is placed out of the way.
  llvm::Value* unless(llvm::Value* rare, llvm::Value* result, const std::function<llvm::Value*()>& otherwise);

  // Whether x fills a register of AVX-512, which has instructions that other registers lack.
  bool is_avx512(llvm::Value* x) const;
  // Looks up the low four bits of each lane in a table of 16 floats in one such register.
  llvm::Value* look_up(std::span<const float> table, llvm::Value* index);

  // The parts of exp(x) = (1 + tail) * 2^n for |x| < 2^22.
  struct ExpParts {
    llvm::Value* n;      // integer
    llvm::Value* whole;  // n as a float
    llvm::Value* r;      // the reduced argument
    llvm::Value* tail;   // exp(r) - 1 - r
  };
  ExpParts exp_parts(llvm::Value* x);
  // The parts of 2^x = power * 2^n for |x| < 2^22.
  struct Exp2Parts {
    llvm::Value* n;      // integer
    llvm::Value* whole;  // n as a float
    llvm::Value* power;  // 2^(x - n)
  };
  Exp2Parts exp2_parts(llvm::Value* x);
  // The parts of x = 2^k * (1 + f) for a positive normal x, with 1 + f near 1, and of log(x); n is k as a float.
  struct LogParts {
    llvm::Value* k;
    llvm::Value* f;
  };
  LogParts log_parts(llvm::Value* x);
  llvm::Value* log_of_parts(llvm::Value* n, llvm::Value* f);
  // r with the values of a logarithm at infinity, at its pole and below it.
  llvm::Value* log_ends(llvm::Value* r, llvm::Value* x, double pole);

  llvm::Value* power_of_two(llvm::Value* n);                               // n in [-126, 127]; 0 for n = -127
  llvm::Value* scale(llvm::Value* x, llvm::Value* n, llvm::Value* whole);  // x * 2^n for any n in [-252, 254]
  llvm::Value* exp_in_range(llvm::Value* x);                               // no overflow, no denormals

  llvm::Value* number(llvm::Value* like, double v) { return p_.number(like->getType(), v); }
  llvm::Value* polynomial(llvm::Value* x, std::initializer_list<double> highest_first);
  llvm::Value* at_least(llvm::Value* x, double low);
  llvm::Value* at_most(llvm::Value* x, double high);
  llvm::Value* clamp(llvm::Value* x, double low, double high);
  llvm::Type* integers(llvm::Value* x);
  llvm::Value* with_sign_of(llvm::Value* x, llvm::Value* sign);

  llvm::IRBuilder<>& b_;
  Primitives& p_;
};

}  // namespace vesta::codegen
