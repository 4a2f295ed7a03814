#include "codegen/llvm/vector_math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <array>
#include <cmath>

namespace vesta::codegen {

using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

Value* VectorMath::compute(Prim p, Value* x) {
  switch (p) {
    case Prim::Exp: return exp(x);
    case Prim::Exp2: return exp2(x);
    case Prim::Expm1: return expm1(x);
    case Prim::Log:
    case Prim::Log2:
    case Prim::Log10: return log(p, x);
    case Prim::Log1p: return log1p(x);
    case Prim::Sin: return sine(x, false);
    case Prim::Cos: return sine(x, true);
    case Prim::Tanh: return tanh(x);
    case Prim::Erf: return erf(x);
    case Prim::Erfinv: return erfinv(x);
    case Prim::Lgamma: return lgamma(x);
    case Prim::Digamma: return digamma(x);
    case Prim::Sigmoid: {
      Value* one = number(x, 1);
      return b_.CreateFDiv(one, b_.CreateFAdd(one, exp(b_.CreateFNeg(x))));
    }
    default: return nullptr;
  }
}

llvm::Type* VectorMath::integers(Value* x) { return p_.register_type(DType::I32, Primitives::lanes_of(x)); }

Value* VectorMath::polynomial(Value* x, std::initializer_list<double> c) {
  auto it = c.begin();
  Value* r = number(x, *it++);
  for (; it != c.end(); ++it) r = p_.fma(r, x, number(x, *it));
  return r;
}

// NaN stays NaN.
Value* VectorMath::clamp(Value* x, double low, double high) { return at_most(at_least(x, low), high); }

Value* VectorMath::at_least(Value* x, double low) {
  Value* l = number(x, low);
  return b_.CreateSelect(b_.CreateFCmpOGT(l, x), l, x);
}

Value* VectorMath::at_most(Value* x, double high) {
  Value* h = number(x, high);
  return b_.CreateSelect(b_.CreateFCmpOLT(h, x), h, x);
}

Value* VectorMath::with_sign_of(Value* x, Value* sign) {
  return b_.CreateBinaryIntrinsic(Intrinsic::copysign, x, sign);
}

Value* VectorMath::power_of_two(Value* n) {
  Value* biased = b_.CreateShl(b_.CreateAdd(n, p_.integer(n->getType(), 127)), uint64_t{23});
  return b_.CreateBitCast(biased, p_.register_type(DType::F32, Primitives::lanes_of(n)));
}

Value* VectorMath::scale(Value* x, Value* n, Value* whole) {
  if (is_avx512(x)) {
    // One instruction where the processor has it, instead of eight.
    return b_.CreateIntrinsic(
        Intrinsic::x86_avx512_mask_scalef_ps_512, {},
        {x, whole, llvm::Constant::getNullValue(x->getType()), b_.getInt16(0xffff), b_.getInt32(4)});
  }
  Value* half = b_.CreateAShr(n, uint64_t{1});
  Value* rest = b_.CreateSub(n, half);
  return b_.CreateFMul(b_.CreateFMul(x, power_of_two(half)), power_of_two(rest));
}

// Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
VectorMath::ExpParts VectorMath::exp_parts(Value* x) {
  Value* magic = number(x, 0x1.8p23);
  Value* shifted = p_.fma(x, number(x, 1.44269504088896341), magic);
  Value* n = b_.CreateFSub(shifted, magic);
  Value* r = p_.fma(n, number(x, -0.693359375), x);
  r = p_.fma(n, number(x, 2.12194440e-4), r);
  Value* q = polynomial(
      r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  ExpParts parts;
  parts.n = b_.CreateSub(b_.CreateBitCast(shifted, integers(x)), p_.integer(integers(x), 0x4b400000));
  parts.whole = n;
  parts.r = r;
  parts.tail = b_.CreateFMul(b_.CreateFMul(r, r), q);
  return parts;
}

bool VectorMath::is_avx512(Value* x) const { return p_.target().avx512 && Primitives::lanes_of(x) == 16; }

Value* VectorMath::look_up(std::span<const float> table, Value* index) {
  llvm::SmallVector<float, 16> entries(table.begin(), table.end());
  return b_.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {},
                            {llvm::ConstantDataVector::get(b_.getContext(), entries), index});
}

// Results below all denormals, such as exp(-inf) in a softmax with a mask, are inserted at the end. Letting them
// underflow would cost the processor more than a hundred cycles each.
Value* VectorMath::exp(Value* x) {
  Value* vanishes = b_.CreateFCmpOLT(x, number(x, -104));
  ExpParts e = exp_parts(at_most(b_.CreateSelect(vanishes, number(x, 0), x), 89));
  Value* r = scale(b_.CreateFAdd(b_.CreateFAdd(e.tail, e.r), number(x, 1)), e.n, e.whole);
  return b_.CreateSelect(vanishes, number(x, 0), r);
}

Value* VectorMath::exp_in_range(Value* x) {
  ExpParts e = exp_parts(x);
  Value* p = b_.CreateFAdd(b_.CreateFAdd(e.tail, e.r), number(x, 1));
  return b_.CreateFMul(p, power_of_two(e.n));
}

Value* VectorMath::exp2(Value* x) {
  Value* vanishes = b_.CreateFCmpOLT(x, number(x, -150));
  const Exp2Parts e = exp2_parts(at_most(b_.CreateSelect(vanishes, number(x, 0), x), 129));
  return b_.CreateSelect(vanishes, number(x, 0), scale(e.power, e.n, e.whole));
}

VectorMath::Exp2Parts VectorMath::exp2_parts(Value* x) {
  Exp2Parts out{};
  Value* magic = number(x, 0x1.8p23);
  Value* shifted = b_.CreateFAdd(x, magic);
  out.whole = b_.CreateFSub(shifted, magic);
  Value* r = b_.CreateFSub(x, out.whole);
  Value* p = polynomial(r, {1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2,
                            2.402264791363012e-1, 6.931472028550421e-1});
  out.power = p_.fma(p, r, number(x, 1));
  out.n = b_.CreateSub(b_.CreateBitCast(shifted, integers(x)), p_.integer(integers(x), 0x4b400000));
  return out;
}

// 2 * (h * (exp(r) - 1) + (h - 1/2)) with h = 2^(n-1): exact where it matters, and no overflow before the last step.
Value* VectorMath::expm1(Value* x) {
  ExpParts e = exp_parts(clamp(x, -30, 89));
  Value* h = power_of_two(b_.CreateSub(e.n, p_.integer(e.n->getType(), 1)));
  Value* inner = b_.CreateFAdd(e.r, e.tail);
  Value* half = p_.fma(h, inner, b_.CreateFSub(h, number(x, 0.5)));
  return with_sign_of(b_.CreateFAdd(half, half), x);
}

namespace {
constexpr std::initializer_list<double> kLog = {7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,
                                                -1.2420140846e-1, 1.4249322787e-1,  -1.6668057665e-1,
                                                2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
constexpr int64_t kRootHalfBits = 0x3f3504f3;  // sqrt(1/2)
}  // namespace

// x = 2^k * m with m in [sqrt(1/2), sqrt(2)); log(m) is a polynomial in f = m - 1.
VectorMath::LogParts VectorMath::log_parts(Value* x) {
  llvm::Type* i32 = integers(x);
  Value* bits = b_.CreateBitCast(x, i32);
  LogParts parts;
  parts.k = b_.CreateAShr(b_.CreateSub(bits, p_.integer(i32, kRootHalfBits)), uint64_t{23});
  Value* m = b_.CreateBitCast(b_.CreateSub(bits, b_.CreateShl(parts.k, uint64_t{23})), x->getType());
  parts.f = b_.CreateFSub(m, number(x, 1));
  return parts;
}

Value* VectorMath::log_of_parts(Value* n, Value* f) {
  Value* f2 = b_.CreateFMul(f, f);
  Value* tail = b_.CreateFMul(b_.CreateFMul(f2, f), polynomial(f, kLog));
  tail = p_.fma(n, number(f, -2.12194440e-4), tail);
  tail = p_.fma(f2, number(f, -0.5), tail);
  return p_.fma(n, number(f, 0.693359375), b_.CreateFAdd(f, tail));
}

Value* VectorMath::log_ends(Value* r, Value* x, double pole) {
  Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, infinity), x, r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, pole)), llvm::ConstantFP::getInfinity(x->getType(), true), r);
  return b_.CreateSelect(b_.CreateFCmpULT(x, number(x, pole)), llvm::ConstantFP::getNaN(x->getType()), r);
}

Value* VectorMath::log(Prim p, Value* x) {
  llvm::Type* i32 = integers(x);
  Value* tiny = b_.CreateFCmpOLT(x, number(x, 0x1p-126));
  Value* normal = b_.CreateSelect(tiny, b_.CreateFMul(x, number(x, 0x1p23)), x);
  LogParts parts = log_parts(normal);
  Value* k = b_.CreateSub(parts.k, b_.CreateSelect(tiny, p_.integer(i32, 23), p_.integer(i32, 0)));
  Value* n = b_.CreateSIToFP(k, x->getType());
  Value* f = parts.f;
  Value* r;
  if (p == Prim::Log) {
    r = log_of_parts(n, f);
  } else {
    bool two = p == Prim::Log2;
    // log2(e) and log10(e) in two parts. The high part of n * log10(2) is exact.
    double high = two ? 1.442695021629333496 : 0.43429449200630188;
    double low = two ? 1.925963033500e-8 : -1.0103050e-8;
    Value* f2 = b_.CreateFMul(f, f);
    Value* tail = b_.CreateFMul(b_.CreateFMul(f2, f), polynomial(f, kLog));
    tail = p_.fma(f2, number(x, -0.5), tail);
    Value* small = p_.fma(f, number(x, low), b_.CreateFMul(tail, number(x, high)));
    if (two) {
      r = b_.CreateFAdd(n, p_.fma(f, number(x, high), small));
    } else {
      small = p_.fma(n, number(x, 4.6050390665e-6), small);
      r = p_.fma(n, number(x, 0.301025390625), p_.fma(f, number(x, high), small));
    }
  }
  return log_ends(r, x, 0);
}

// Computes log(1 + x) and adds to m - 1 what rounding removed from the sum.
Value* VectorMath::log1p(Value* x) {
  llvm::Type* i32 = integers(x);
  Value* one = number(x, 1);
  Value* sum = b_.CreateFAdd(one, x);
  Value* t = b_.CreateFSub(sum, one);
  Value* lost = b_.CreateFAdd(b_.CreateFSub(one, b_.CreateFSub(sum, t)), b_.CreateFSub(x, t));
  LogParts parts = log_parts(sum);
  Value* n = b_.CreateSIToFP(parts.k, x->getType());
  // lost * 2^-k, which is negligible beyond 2^60.
  Value* exponent = b_.CreateShl(parts.k, uint64_t{23});
  Value* shrink = b_.CreateBitCast(b_.CreateSub(p_.integer(i32, 0x3f800000), exponent), x->getType());
  Value* correction =
      b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0x1p60)), b_.CreateFMul(lost, shrink), number(x, 0));
  Value* f = b_.CreateFAdd(parts.f, correction);
  return log_ends(with_sign_of(log_of_parts(n, f), x), x, -1);
}

// The reduction by pi/2 is done in double, which is exact enough up to 2^28. If a lane is beyond that or infinite, the
// whole vector goes through the C library.
Value* VectorMath::sine(Value* x, bool cosine) {
  int lanes = Primitives::lanes_of(x);
  llvm::Type* f32 = x->getType();
  llvm::Type* i32 = integers(x);
  llvm::Type* f64 = p_.register_type(DType::F64, lanes);
  Value* magnitude = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* too_large = b_.CreateFCmpOGE(magnitude, number(x, p_.target().fma ? 0x1p28 : 0x1p20));
  Value* wide = b_.CreateFPExt(magnitude, f64);
  Value* magic = p_.number(f64, 0x1.8p52);
  Value* shifted = b_.CreateFAdd(b_.CreateFMul(wide, p_.number(f64, 0.63661977236758134308)), magic);
  Value* n = b_.CreateFSub(shifted, magic);
  bool fused = p_.target().fma;
  Value* reduced = p_.fma(n, p_.number(f64, fused ? -1.57079632679489655800 : -0x1.921fb544p0), wide);
  reduced = p_.fma(n, p_.number(f64, fused ? -6.12323399573676603587e-17 : -0x1.0b4611a626331p-34), reduced);
  Value* r = b_.CreateFPTrunc(reduced, f32);
  llvm::Type* i64 = p_.register_type(DType::I64, lanes);
  Value* quadrant = b_.CreateTrunc(b_.CreateBitCast(shifted, i64), i32);

  Value* z = b_.CreateFMul(r, r);
  Value* s = polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  s = p_.fma(b_.CreateFMul(r, z), s, r);
  Value* c = polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  c = p_.fma(b_.CreateFMul(z, z), c, p_.fma(z, number(x, -0.5), number(x, 1)));

  if (cosine) quadrant = b_.CreateAdd(quadrant, p_.integer(i32, 1));
  Value* odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, p_.integer(i32, 1)), p_.integer(i32, 0));
  Value* picked = b_.CreateSelect(odd, c, s);
  Value* sign = b_.CreateShl(b_.CreateAnd(quadrant, p_.integer(i32, 2)), uint64_t{30});
  if (!cosine) sign = b_.CreateXor(sign, b_.CreateAnd(b_.CreateBitCast(x, i32), p_.integer(i32, INT32_MIN)));
  Value* result = b_.CreateBitCast(b_.CreateXor(b_.CreateBitCast(picked, i32), sign), f32);

  return unless(too_large, result,
                [&] { return p_.call_function(cosine ? Prim::Cos : Prim::Sin, DType::F32, x, nullptr); });
}

Value* VectorMath::unless(Value* rare, Value* result, const std::function<Value*()>& otherwise) {
  llvm::AllocaInst* slot = p_.stack(result->getType(), "rare");
  b_.CreateStore(result, slot);
  llvm::Instruction* next = &*b_.GetInsertPoint();
  Value* any = Primitives::lanes_of(result) == 1 ? rare : b_.CreateOrReduce(rare);
  llvm::MDNode* rarely = llvm::MDBuilder(b_.getContext()).createBranchWeights(1, 100000);
  b_.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(any, next, false, rarely));
  b_.CreateStore(otherwise(), slot);
  b_.SetInsertPoint(next);
  return b_.CreateLoad(result->getType(), slot);
}

Value* VectorMath::tanh(Value* x) {
  Value* magnitude = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* z = b_.CreateFMul(x, x);
  Value* small =
      polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  small = p_.fma(b_.CreateFMul(small, z), magnitude, magnitude);
  Value* bounded = at_most(magnitude, 10);
  Value* e = exp_in_range(b_.CreateFAdd(bounded, bounded));
  Value* large = b_.CreateFSub(number(x, 1), b_.CreateFDiv(number(x, 2), b_.CreateFAdd(e, number(x, 1))));
  Value* r = b_.CreateSelect(b_.CreateFCmpOLT(magnitude, number(x, 0.625)), small, large);
  return with_sign_of(r, x);
}

namespace {

// erf is base + d. Around the first kErfNear of 16 centres, kErfStep apart, the base is |x|; around the others it is 1.
// d is small in both cases: a polynomial of degree 5 in t = |x| - centre, interpolated at the Chebyshev nodes of |t| <=
// kErfStep / 2 (around 0, where d must vanish, d / t is interpolated).
constexpr double kErfStep = 17.0 / 64;
constexpr size_t kErfNear = 3;
constexpr size_t kErfTerms = 6;
using ErfTable = std::array<std::array<float, 16>, kErfTerms>;  // lowest power first

ErfTable erf_table() {
  ErfTable table{};
  for (size_t entry = 0; entry < 16; ++entry) {
    const size_t first = entry == 0 ? 1 : 0;
    const size_t n = kErfTerms - first;
    const double centre = static_cast<double>(entry) * kErfStep;
    std::array<double, kErfTerms> at{}, c{};
    for (size_t i = 0; i < n; ++i) {
      at[i] = kErfStep / 2 * std::cos(std::acos(-1.0) * (static_cast<double>(i) + 0.5) / static_cast<double>(n));
      const double x = centre + at[i];
      const double d = std::erf(x) - (entry < kErfNear ? x : 1);
      c[i] = first ? d / at[i] : d;
    }
    // Newton's divided differences, then multiplied out.
    for (size_t order = 1; order < n; ++order) {
      for (size_t i = n - 1; i >= order; --i) c[i] = (c[i] - c[i - 1]) / (at[i] - at[i - order]);
    }
    for (size_t k = n - 1; k-- > 0;) {
      for (size_t i = k; i + 1 < n; ++i) c[i] -= at[k] * c[i + 1];
    }
    for (size_t i = 0; i < n; ++i) table[i + first][entry] = static_cast<float>(c[i]);
  }
  return table;
}

}  // namespace

Value* VectorMath::erf_by_table(Value* x) {
  static const ErfTable table = erf_table();
  Value* magnitude = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* a = at_most(magnitude, 4);  // erf is 1 from 3.92 on
  Value* magic = number(x, 0x1.8p23);
  Value* shifted = p_.fma(a, number(x, 1 / kErfStep), magic);
  Value* n = b_.CreateFSub(shifted, magic);
  Value* t = p_.fma(n, number(x, -kErfStep), a);
  Value* index = b_.CreateBitCast(shifted, integers(x));
  Value* d = look_up(table[kErfTerms - 1], index);
  for (size_t i = kErfTerms - 1; i-- > 0;) d = p_.fma(d, t, look_up(table[i], index));
  Value* base = b_.CreateSelect(b_.CreateFCmpOLT(n, number(x, kErfNear)), a, number(x, 1));
  return with_sign_of(b_.CreateFAdd(base, d), x);
}

// Near zero an odd polynomial; further out 1 - exp(-q(|x|)).
Value* VectorMath::erf(Value* x) {
  if (is_avx512(x)) return erf_by_table(x);
  Value* t = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* s = b_.CreateFMul(x, x);
  Value* small =
      polynomial(s, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1});
  small = p_.fma(small, x, x);
  Value* a = at_most(t, 4);  // erf is 1 from 3.92 on
  Value* a2 = b_.CreateFMul(a, a);
  Value* r = p_.fma(number(x, -1.72853470e-5), a, number(x, 3.83197126e-4));
  Value* u = p_.fma(number(x, -3.88396438e-3), a, number(x, 2.42546219e-2));
  r = p_.fma(r, a2, u);
  r = p_.fma(r, a, number(x, -1.06777877e-1));
  r = p_.fma(r, a, number(x, -6.34846687e-1));
  r = p_.fma(r, a, number(x, -1.28717512e-1));
  r = p_.fma(r, a, b_.CreateFNeg(a));
  Value* large = with_sign_of(b_.CreateFSub(number(x, 1), exp_in_range(r)), x);
  return b_.CreateSelect(b_.CreateFCmpOGT(t, number(x, 0.927734375)), large, small);
}

// erfc(|x|) is 2 to the power of a polynomial, which was fitted for the least error of the result.
Value* VectorMath::one_plus_erf(Value* x) {
  if (is_avx512(x)) return nullptr;
  Value* t = b_.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* p = polynomial(t, {-3.92163456e-5, 4.00974444e-4, -1.36311131e-3, -9.53616633e-4, 2.83876229e-2,
                            -1.48532972e-1, -9.18407500e-1, -1.62790906});
  const Exp2Parts e = exp2_parts(at_least(b_.CreateFMul(p, t), -127));
  Value* other = b_.CreateFMul(e.power, power_of_two(e.n));
  return b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0)), other, b_.CreateFSub(number(x, 2), other));
}

}  // namespace vesta::codegen
