// The rarer functions: exact remainders, the inverse error function on float, and for a float in double the logarithm
// of the gamma function and its derivative. Coefficients are Chebyshev fits, highest power first.
#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "codegen/llvm/vector_math.h"

namespace vesta::codegen {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

// |a| - n |b| with n = trunc(|a| / |b|) is exact and n at most one too large, as long as n is an integer of the type;
// then |b| is added back. Larger quotients, infinities and NaN go to the C library's function.
Value* VectorMath::remainder(Prim p, DType t, Value* a, Value* b) {
  if (!p_.target().fma) return nullptr;  // two roundings would not be exact
  Value* dividend = b_.CreateUnaryIntrinsic(Intrinsic::fabs, a);
  Value* divisor = b_.CreateUnaryIntrinsic(Intrinsic::fabs, b);
  Value* quotient = b_.CreateFDiv(dividend, divisor);
  Value* easy = b_.CreateFCmpOLT(quotient, number(a, t == DType::F64 ? 0x1p52 : 0x1p23));
  easy = b_.CreateAnd(easy, b_.CreateFCmpOLT(divisor, llvm::ConstantFP::getInfinity(a->getType())));
  Value* n = b_.CreateUnaryIntrinsic(Intrinsic::trunc, quotient);
  Value* rest = p_.fma(b_.CreateFNeg(n), divisor, dividend);
  rest = b_.CreateSelect(b_.CreateFCmpOLT(rest, number(a, 0)), b_.CreateFAdd(rest, divisor), rest);
  rest = with_sign_of(rest, a);
  if (p == Prim::Mod) {
    Value* zero = number(a, 0);
    Value* differ = b_.CreateXor(b_.CreateFCmpOLT(b, zero), b_.CreateFCmpOLT(rest, zero));
    Value* moves = b_.CreateAnd(b_.CreateFCmpUNE(rest, zero), differ);
    rest = b_.CreateSelect(moves, b_.CreateFAdd(rest, b), rest);
  }
  return unless(b_.CreateNot(easy), rest, [&] { return p_.call_function(p, t, a, b); });
}

// x times a polynomial in w = -log(1 - x^2); beyond w = 5, for |x| > 0.9966, a polynomial in sqrt(w).
Value* VectorMath::erfinv(Value* x) {
  Value* one = number(x, 1);
  Value* magnitude = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  const LogParts parts = log_parts(b_.CreateFMul(b_.CreateFSub(one, x), b_.CreateFAdd(one, x)));
  Value* w = b_.CreateFNeg(log_of_parts(b_.CreateSIToFP(parts.k, x->getType()), parts.f));
  Value* centre = polynomial(b_.CreateFSub(w, number(x, 2.5)),
                             {-8.931925970244222e-09, 2.3335967195708108e-08, 4.6813134805534123e-07,
                              -3.4639852676333717e-06, -4.9724196894547514e-06, 0.00021834938623976644,
                              -0.0012527263917732291, -0.0041773928752031489, 0.24664027905463662, 1.5014093604503289});
  centre = b_.CreateFMul(centre, x);
  Value* in_tail = b_.CreateNot(b_.CreateFCmpOLT(magnitude, number(x, 0.9966)));
  return unless(in_tail, centre, [&] {
    Value* tail = polynomial(b_.CreateFSub(b_.CreateUnaryIntrinsic(Intrinsic::sqrt, w), number(x, 3)),
                             {0.0001115385807799795, -0.00030552505117411146, -5.0458852898084112e-05,
                              0.001479703952923971, -0.0036009003307526993, 0.0056892162943421656,
                              -0.0076364896366789047, 0.0094449921135278357, 1.0016749120571993, 2.8329768070195414});
    Value* r = b_.CreateSelect(in_tail, b_.CreateFMul(tail, x), centre);
    Value* edge = with_sign_of(llvm::ConstantFP::getInfinity(x->getType()), x);
    r = b_.CreateSelect(b_.CreateFCmpOEQ(magnitude, one), edge, r);
    return b_.CreateSelect(b_.CreateFCmpULE(magnitude, one), r, llvm::ConstantFP::getNaN(x->getType()));
  });
}

// log of a positive, finite and normal double: x = 2^k * m with m in [sqrt(1/2), sqrt(2)), and log(m) is 2 atanh of (m
// - 1) / (m + 1).
Value* VectorMath::log_of_double(Value* x) {
  constexpr int64_t kRootHalf = std::bit_cast<int64_t>(0x1.6a09e667f3bcdp-1);
  const int lanes = Primitives::lanes_of(x);
  llvm::Type* i64 = p_.register_type(DType::I64, lanes);
  llvm::Type* i32 = p_.register_type(DType::I32, lanes);
  Value* moved = b_.CreateAdd(b_.CreateBitCast(x, i64), p_.integer(i64, (int64_t{1023} << 52) - kRootHalf));
  Value* mantissa = b_.CreateAnd(moved, p_.integer(i64, (int64_t{1} << 52) - 1));
  Value* m = b_.CreateBitCast(b_.CreateAdd(mantissa, p_.integer(i64, kRootHalf)), x->getType());
  Value* k = b_.CreateSub(b_.CreateTrunc(b_.CreateLShr(moved, uint64_t{52}), i32), p_.integer(i32, 1023));
  Value* s = b_.CreateFDiv(b_.CreateFSub(m, number(x, 1)), b_.CreateFAdd(m, number(x, 1)));
  Value* z = b_.CreateFMul(s, s);
  Value* series = polynomial(z, {2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3});
  Value* r = p_.fma(b_.CreateFMul(s, z), series, b_.CreateFAdd(s, s));
  return p_.fma(b_.CreateSIToFP(k, x->getType()), number(x, std::numbers::ln2), r);
}

VectorMath::Turn VectorMath::turn(Value* x) {
  Value* r = b_.CreateFSub(x, b_.CreateUnaryIntrinsic(Intrinsic::rint, x));
  Value* z = b_.CreateFMul(r, r);
  Turn t;
  t.sine = b_.CreateFMul(
      r, polynomial(z, {-2.1133627352052969e-05, 0.00046598701580433777, -0.0073703643265304155, 0.082145878816310428,
                        -0.59926452882522396, 2.5501640398618677, -5.1677127800497855, 3.1415926535897927}));
  t.cosine = polynomial(z, {-0.0001004164642205389, 0.0019278700526981333, -0.025806531975921563, 0.23533058831317874,
                            -1.3352627661817635, 4.0587121263332948, -4.934802200543686, 0.99999999999999811});
  return t;
}

// For a = |x|: below 3, (a - 1)(a - 2) times a polynomial, which is exact near the zeros 1 and 2; arguments below 3/2
// are moved there by one step of the recurrence. Above 3, Stirling's formula. Negative x by reflection.
Value* VectorMath::lgamma(Value* narrow) {
  const int lanes = Primitives::lanes_of(narrow);
  Value* x = b_.CreateFPExt(narrow, p_.register_type(DType::F64, lanes));
  Value* one = number(x, 1);
  Value* a = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* log_a = log_of_double(a);
  Value* steps = b_.CreateFCmpOLT(a, number(x, 1.5));
  Value* y = b_.CreateSelect(steps, b_.CreateFAdd(a, one), a);
  Value* from_two = b_.CreateFSub(y, number(x, 2));
  Value* near = polynomial(
      from_two,
      {1.1660443077756478e-06, -2.4494311160743119e-06, 2.0345105469746178e-07, -4.892146044701243e-07,
       9.8513177051079452e-06, -2.1069867673657713e-05, 3.7261659239787422e-05, -8.1197536861007935e-05,
       0.00018283370421637044, -0.00040629521082443141, 0.00091533129637269138, -0.0021080354202493846,
       0.0049986444619814765, -0.012384199088411981, 0.032965000552131661, -0.10031730153001821, 0.42278433509846713});
  near = b_.CreateFMul(b_.CreateFMul(b_.CreateFSub(y, one), from_two), near);
  near = b_.CreateFSub(near, b_.CreateSelect(steps, log_a, number(x, 0)));
  Value* inverse = b_.CreateFDiv(one, a);
  Value* far = b_.CreateFMul(inverse, polynomial(b_.CreateFMul(inverse, inverse),
                                                 {0.0017901800692895539, -0.0014233123861739818, 0.00081012066017438304,
                                                  -0.00059411373808654637, 0.00079363098102016043,
                                                  -0.0027777776435429619, 0.08333333333318188}));
  far = b_.CreateFAdd(far, number(x, 0.91893853320467274178));  // log(2 pi) / 2
  far = b_.CreateFAdd(b_.CreateFSub(b_.CreateFMul(b_.CreateFSub(a, number(x, 0.5)), log_a), a), far);
  Value* r = b_.CreateSelect(b_.CreateFCmpOLT(a, number(x, 3)), near, far);

  Value* product = b_.CreateFMul(a, b_.CreateUnaryIntrinsic(Intrinsic::fabs, turn(x).sine));
  Value* reflected = b_.CreateFSub(number(x, 1.14472988584940017414), b_.CreateFAdd(log_of_double(product), r));
  Value* zero = number(x, 0);
  r = b_.CreateSelect(b_.CreateFCmpOLT(x, zero), reflected, r);
  Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
  Value* whole = b_.CreateFCmpOEQ(x, b_.CreateUnaryIntrinsic(Intrinsic::floor, x));
  Value* pole = b_.CreateAnd(b_.CreateFCmpOLE(x, zero), whole);
  r = b_.CreateSelect(b_.CreateOr(pole, b_.CreateFCmpOEQ(a, infinity)), infinity, r);
  return b_.CreateFPTrunc(r, narrow->getType());
}

// For x < 8, the recurrence digamma(x) = digamma(x + 1) - 1/x is applied eight times; one quotient computes the sum of
// the eight reciprocals. The asymptotic series then gives the value. The reflection formula maps negative x to x > 0.
Value* VectorMath::digamma(Value* narrow) {
  const int lanes = Primitives::lanes_of(narrow);
  Value* x = b_.CreateFPExt(narrow, p_.register_type(DType::F64, lanes));
  Value* one = number(x, 1);
  Value* zero = number(x, 0);
  Value* negative = b_.CreateFCmpOLT(x, zero);
  Value* y = b_.CreateSelect(negative, b_.CreateFSub(one, x), x);
  Value* small = b_.CreateFCmpOLT(y, number(x, 8));
  Value* product = y;  // of y, y + 1, ...; its derivative divided by it is the sum of the reciprocals
  Value* derivative = one;
  for (int k = 1; k < 8; ++k) {
    Value* factor = b_.CreateFAdd(y, number(x, k));
    derivative = p_.fma(derivative, factor, product);
    product = b_.CreateFMul(product, factor);
  }
  Value* steps = b_.CreateSelect(small, b_.CreateFDiv(derivative, product), zero);
  Value* z = b_.CreateSelect(small, b_.CreateFAdd(y, number(x, 8)), y);
  Value* inverse = b_.CreateFDiv(one, z);
  Value* square = b_.CreateFMul(inverse, inverse);
  Value* series = polynomial(square, {-691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12});
  Value* r = b_.CreateFSub(log_of_double(z), b_.CreateFMul(number(x, 0.5), inverse));
  r = b_.CreateFSub(b_.CreateFSub(r, b_.CreateFMul(square, series)), steps);

  const Turn t = turn(x);
  Value* cotangent = b_.CreateFDiv(b_.CreateFMul(number(x, std::numbers::pi), t.cosine), t.sine);
  r = b_.CreateSelect(negative, b_.CreateFSub(r, cotangent), r);
  Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
  Value* whole = b_.CreateFCmpOEQ(x, b_.CreateUnaryIntrinsic(Intrinsic::floor, x));
  r = b_.CreateSelect(b_.CreateAnd(negative, whole), llvm::ConstantFP::getNaN(x->getType()), r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), with_sign_of(infinity, b_.CreateFNeg(x)), r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, infinity), infinity, r);
  return b_.CreateFPTrunc(r, narrow->getType());
}

}  // namespace vesta::codegen
