#include "codegen/llvm/primitives.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "base/check.h"
#include "codegen/llvm/vector_math.h"
#include "loops/scalar.h"
#include "machine/imports.h"

namespace vesta::codegen {

using llvm::Type;
using llvm::Value;
using llvm::Intrinsic::ID;
namespace Intrinsic = llvm::Intrinsic;

namespace {
Type* vector_of(Type* scalar, int lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}
}  // namespace

int Primitives::lanes_of(Value* v) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(v->getType());
  return type ? static_cast<int>(type->getNumElements()) : 1;
}

Type* Primitives::like(Type* scalar, Value* v) const { return vector_of(scalar, lanes_of(v)); }

Type* Primitives::register_type(DType t, int lanes) const {
  VESTA_CHECK(!is_float8(t), "a kernel for the CPU with {}", name(t));
  switch (t) {
    case DType::Bool: return vector_of(b_.getInt1Ty(), lanes);
    case DType::F16:
    case DType::BF16:
    case DType::F32: return vector_of(b_.getFloatTy(), lanes);
    case DType::F64: return vector_of(b_.getDoubleTy(), lanes);
    default: return vector_of(b_.getIntNTy(static_cast<unsigned>(8 * element_size(t))), lanes);
  }
}

Type* Primitives::memory_type(DType t, int lanes) const {
  switch (t) {
    case DType::Bool: return vector_of(b_.getInt8Ty(), lanes);
    case DType::F16:
    case DType::BF16: return vector_of(b_.getInt16Ty(), lanes);
    default: return register_type(t, lanes);
  }
}

Value* Primitives::number(Type* type, double v) const { return llvm::ConstantFP::get(type, v); }
Value* Primitives::integer(Type* type, int64_t v) const {
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(v), true);
}

Value* Primitives::constant(DType t, double f, int64_t i) const {
  Type* type = register_type(t, 1);
  if (!is_float(t)) return integer(type, loops::from_integer(t, i).i);
  return number(type, loops::from_double(t, f).f);
}

llvm::AllocaInst* Primitives::stack(Type* type, const char* name) {
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  b_.SetInsertPoint(&entry, entry.begin());
  return b_.CreateAlloca(type, nullptr, name);
}

void Primitives::prefetch(Value* pointer, unsigned cache_level) {
  b_.CreateIntrinsic(Intrinsic::prefetch, {pointer->getType()},
                     {pointer, b_.getInt32(0), b_.getInt32(4 - cache_level), b_.getInt32(1)});
}

Value* Primitives::sub_vector(Value* v, int first, int count) {
  if (count == 1) return b_.CreateExtractElement(v, static_cast<uint64_t>(first));
  llvm::SmallVector<int, 64> indices;
  for (int i = 0; i < count; ++i) indices.push_back(first + i);
  return b_.CreateShuffleVector(v, indices);
}

Value* Primitives::concat(Value* low, Value* high) {
  int n = lanes_of(low);
  if (n == 1) {
    Value* v = llvm::PoisonValue::get(vector_of(low->getType(), 2));
    return b_.CreateInsertElement(b_.CreateInsertElement(v, low, uint64_t{0}), high, uint64_t{1});
  }
  llvm::SmallVector<int, 64> indices;
  for (int i = 0; i < 2 * n; ++i) indices.push_back(i);
  return b_.CreateShuffleVector(low, high, indices);
}

Value* Primitives::fma(Value* a, Value* b, Value* c) {
  // Without the instruction the intrinsic is one call per lane. The callers accept two roundings.
  if (!target_.fma) return b_.CreateFAdd(b_.CreateFMul(a, b), c);
  return b_.CreateIntrinsic(Intrinsic::fma, {a->getType()}, {a, b, c});
}

bool Primitives::adds_pairs(int lanes) const {
  return has_feature(target_, "avx512bf16") && (lanes == 16 || lanes == 8);
}

Value* Primitives::add_pairs(Value* a, Value* b, Value* sum) {
  const int lanes = lanes_of(sum);
  Type* const pairs = llvm::FixedVectorType::get(b_.getBFloatTy(), static_cast<unsigned>(2 * lanes));
  const auto id = lanes == 16 ? Intrinsic::x86_avx512bf16_dpbf16ps_512 : Intrinsic::x86_avx512bf16_dpbf16ps_256;
  return b_.CreateIntrinsic(id, {}, {sum, b_.CreateBitCast(a, pairs), b_.CreateBitCast(b, pairs)});
}

Value* Primitives::element_of_pair(Value* word, int64_t element) {
  Type* const i32 = like(b_.getInt32Ty(), word);
  Value* const bits = b_.CreateBitCast(word, i32);
  Value* const wide = element == 0 ? b_.CreateShl(bits, uint64_t{16}) : b_.CreateAnd(bits, integer(i32, -0x10000));
  return b_.CreateBitCast(wide, word->getType());
}

// ---- Types ----------------------------------------------------------------------------------------------------------

Value* Primitives::widen_half(DType t, Value* bits) {
  if (t == DType::BF16) {
    Value* wide = b_.CreateShl(b_.CreateZExt(bits, like(b_.getInt32Ty(), bits)), uint64_t{16});
    return b_.CreateBitCast(wide, like(b_.getFloatTy(), bits));
  }
  if (target_.half_convert) {
    return b_.CreateFPExt(b_.CreateBitCast(bits, like(b_.getHalfTy(), bits)), like(b_.getFloatTy(), bits));
  }
  // Shifts exponent and fraction into place and rescales by 2^112, which is exact for denormals, too. The top exponent
  // means infinity.
  Type* i32 = like(b_.getInt32Ty(), bits);
  Type* f32 = like(b_.getFloatTy(), bits);
  Value* wide = b_.CreateZExt(bits, i32);
  Value* magnitude = b_.CreateShl(b_.CreateAnd(wide, integer(i32, 0x7fff)), uint64_t{13});
  Value* scaled = b_.CreateFMul(b_.CreateBitCast(magnitude, f32), number(f32, 0x1p112));
  Value* special = b_.CreateOr(magnitude, integer(i32, 0x7f800000));
  Value* is_special = b_.CreateICmpUGE(magnitude, integer(i32, 0x0f800000));
  Value* r = b_.CreateSelect(is_special, special, b_.CreateBitCast(scaled, i32));
  Value* sign = b_.CreateShl(b_.CreateAnd(wide, integer(i32, 0x8000)), uint64_t{16});
  return b_.CreateBitCast(b_.CreateOr(r, sign), f32);
}

// The processor's own conversion flushes denormals, which ATen keeps.
Value* Primitives::round_bf16(Value* v) {
  Type* i32 = like(b_.getInt32Ty(), v);
  Value* u = b_.CreateBitCast(v, i32);
  Value* odd = b_.CreateAnd(b_.CreateLShr(u, uint64_t{16}), integer(i32, 1));
  Value* rounded = b_.CreateAdd(b_.CreateAdd(u, integer(i32, 0x7fff)), odd);
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), integer(i32, 0x7fc00000), rounded);
}

Value* Primitives::round_to_half_bits(DType t, Value* v) {
  Type* i32 = like(b_.getInt32Ty(), v);
  Type* i16 = like(b_.getInt16Ty(), v);
  if (t == DType::F16 && target_.half_convert) {
    return b_.CreateBitCast(b_.CreateFPTrunc(v, like(b_.getHalfTy(), v)), i16);
  }
  if (t == DType::BF16) return b_.CreateTrunc(b_.CreateLShr(round_bf16(v), uint64_t{16}), i16);
  Value* u = b_.CreateBitCast(v, i32);
  Type* f32 = v->getType();
  Value* sign = b_.CreateAnd(b_.CreateLShr(u, uint64_t{16}), integer(i32, 0x8000));
  Value* magnitude = b_.CreateAnd(u, integer(i32, 0x7fffffff));
  Value* denormal =
      b_.CreateSub(b_.CreateBitCast(b_.CreateFAdd(b_.CreateBitCast(magnitude, f32), number(f32, 0.5)), i32),
                   integer(i32, 0x3f000000));
  Value* odd = b_.CreateAnd(b_.CreateLShr(magnitude, uint64_t{13}), integer(i32, 1));
  Value* normal = b_.CreateAdd(b_.CreateAdd(magnitude, integer(i32, 0xfff - 0x38000000)), odd);
  Value* r = b_.CreateSelect(b_.CreateICmpULT(magnitude, integer(i32, 0x38800000)), denormal,
                             b_.CreateLShr(normal, uint64_t{13}));
  r = b_.CreateSelect(b_.CreateICmpUGE(magnitude, integer(i32, 0x477ff000)), integer(i32, 0x7c00), r);
  r = b_.CreateSelect(b_.CreateICmpUGT(magnitude, integer(i32, 0x7f800000)), integer(i32, 0x7e00), r);
  return b_.CreateTrunc(b_.CreateOr(r, sign), i16);
}

Value* Primitives::from_memory(DType t, Value* v) {
  if (t == DType::Bool) return b_.CreateICmpNE(v, integer(v->getType(), 0));
  if (t == DType::F16 || t == DType::BF16) return widen_half(t, v);
  return v;
}

Value* Primitives::to_memory(DType t, Value* v) {
  if (t == DType::Bool) return b_.CreateZExt(v, like(b_.getInt8Ty(), v));
  if (t == DType::F16 || t == DType::BF16) return round_to_half_bits(t, v);
  return v;
}

Value* Primitives::bits_of_bf16(Value* v) {
  const int lanes = lanes_of(v);
  Value* const bits = b_.CreateBitCast(v, register_type(DType::I32, lanes));
  return b_.CreateTrunc(b_.CreateLShr(bits, uint64_t{16}), memory_type(DType::BF16, lanes));
}

Value* Primitives::load_converted(std::span<const DType> types, int elements, Value* from) {
  const llvm::Align align(static_cast<uint64_t>(element_size(types[0])));
  Value* v = from_memory(types[0], b_.CreateAlignedLoad(memory_type(types[0], elements), from, align));
  for (size_t n = 1; n < types.size(); ++n) v = cast(types[n - 1], types[n], v);
  return v;
}

Value* Primitives::cast(DType from, DType to, Value* v) {
  if (from == to) return v;
  int lanes = lanes_of(v);
  Type* type = register_type(to, lanes);
  bool half = to == DType::F16 || to == DType::BF16;
  if (half) {
    if (from != DType::F32 && from != DType::F16 && from != DType::BF16) v = cast(from, DType::F32, v);
    if (to == DType::F16) return widen_half(to, round_to_half_bits(to, v));
    Type* i32 = like(b_.getInt32Ty(), v);
    return b_.CreateBitCast(b_.CreateAnd(round_bf16(v), integer(i32, -0x10000)), like(b_.getFloatTy(), v));
  }
  if (is_float(from)) {
    if (to == DType::Bool) return b_.CreateFCmpUNE(v, number(v->getType(), 0));
    if (is_float(to))
      return v->getType() == type ? v : to == DType::F64 ? b_.CreateFPExt(v, type) : b_.CreateFPTrunc(v, type);
    // Out of range, the hardware's result is wanted. The freeze keeps the optimiser from assuming that this never
    // happens.
    Type* i32 = like(b_.getInt32Ty(), v);
    Type* i64 = like(b_.getInt64Ty(), v);
    switch (to) {
      case DType::I8:
      case DType::I16:
      case DType::U16: return b_.CreateTrunc(b_.CreateFreeze(b_.CreateFPToSI(v, i32)), type);
      case DType::I32: return b_.CreateFreeze(b_.CreateFPToSI(v, i32));
      case DType::U8:
      case DType::U32: return b_.CreateTrunc(b_.CreateFreeze(b_.CreateFPToSI(v, i64)), type);
      case DType::U64: {
        Value* big = b_.CreateFCmpOGE(v, number(v->getType(), 0x1p63));
        Value* reduced = b_.CreateSelect(big, b_.CreateFSub(v, number(v->getType(), 0x1p63)), v);
        Value* r = b_.CreateFreeze(b_.CreateFPToSI(reduced, i64));
        return b_.CreateXor(r, b_.CreateSelect(big, integer(i64, INT64_MIN), integer(i64, 0)));
      }
      default: return b_.CreateFreeze(b_.CreateFPToSI(v, i64));
    }
  }
  if (to == DType::Bool) return b_.CreateICmpNE(v, integer(v->getType(), 0));
  bool is_unsigned = from == DType::Bool || !is_signed(from);
  if (is_float(to)) return is_unsigned ? b_.CreateUIToFP(v, type) : b_.CreateSIToFP(v, type);
  return is_unsigned ? b_.CreateZExtOrTrunc(v, type) : b_.CreateSExtOrTrunc(v, type);
}

// ---- Functions ------------------------------------------------------------------------------------------------------

Value* Primitives::call_function(Prim p, DType t, Value* a, Value* b) {
  int lanes = lanes_of(a);
  Type* type = a->getType();
  int64_t widest = target_.vector_bytes / element_size(t);
  if (lanes > 1 && lanes > widest) {
    int half = lanes / 2;
    Value* low = call_function(p, t, sub_vector(a, 0, half), b ? sub_vector(b, 0, half) : nullptr);
    Value* high = call_function(p, t, sub_vector(a, half, half), b ? sub_vector(b, half, half) : nullptr);
    return concat(low, high);
  }
  if (std::string name = machine::vector_function(p, t, lanes); !name.empty()) {
    llvm::SmallVector<Type*, 2> types(b ? 2 : 1, type);
    llvm::SmallVector<Value*, 2> values = {a};
    if (b) values.push_back(b);
    llvm::FunctionCallee f = m_.getOrInsertFunction(name, llvm::FunctionType::get(type, types, false));
    llvm::CallInst* call = b_.CreateCall(f, values);
    call->setDoesNotThrow();
    return call;
  }
  std::string name = machine::lane_function(p, t);
  VESTA_CHECK(!name.empty(), "there is no function for {} on {}", vesta::name(p), vesta::name(t));
  Type* pointer = b_.getPtrTy();
  llvm::FunctionCallee f = m_.getOrInsertFunction(
      name, llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, pointer, b_.getInt32Ty()}, false));
  llvm::AllocaInst* in = stack(type, "lanes");
  llvm::AllocaInst* out = stack(type, "result");
  b_.CreateStore(a, in);
  Value* second = llvm::ConstantPointerNull::get(b_.getPtrTy());
  if (b) {
    second = stack(type, "lanes");
    b_.CreateStore(b, second);
  }
  b_.CreateCall(f, {in, second, out, b_.getInt32(static_cast<uint32_t>(lanes))})->setDoesNotThrow();
  return b_.CreateLoad(type, out);
}

Value* Primitives::compute(Prim p, DType t, Value* a, Value* b, Value* c) {
  if (p == Prim::Select) return b_.CreateSelect(a, b, c);
  if (p == Prim::Fma) return fma(a, b, c);
  return is_float(t) ? float_compute(p, t, a, b) : integer_compute(p, t, a, b);
}

Value* Primitives::one_plus_erf(Value* x) { return VectorMath(b_, *this).one_plus_erf(x); }

Value* Primitives::float_compute(Prim p, DType t, Value* a, Value* b) {
  Type* type = a->getType();
  auto unary = [&](ID id) { return b_.CreateUnaryIntrinsic(id, a); };
  auto select = [&](Value* cond, Value* x, Value* y) { return b_.CreateSelect(cond, x, y); };
  switch (p) {
    case Prim::Neg: return b_.CreateFNeg(a);
    case Prim::Abs: return unary(Intrinsic::fabs);
    case Prim::Sqrt: return unary(Intrinsic::sqrt);
    case Prim::Rsqrt: return b_.CreateFDiv(number(type, 1), unary(Intrinsic::sqrt));
    case Prim::Floor: return unary(Intrinsic::floor);
    case Prim::Ceil: return unary(Intrinsic::ceil);
    case Prim::Trunc: return unary(Intrinsic::trunc);
    case Prim::Round: return unary(Intrinsic::rint);
    case Prim::IsNan: return b_.CreateFCmpUNO(a, a);
    case Prim::IsInf: return b_.CreateFCmpOEQ(unary(Intrinsic::fabs), llvm::ConstantFP::getInfinity(type));
    case Prim::SignBit: {
      Type* bits = like(b_.getIntNTy(type->getScalarSizeInBits()), a);
      return b_.CreateICmpSLT(b_.CreateBitCast(a, bits), integer(bits, 0));
    }
    case Prim::Add: return b_.CreateFAdd(a, b);
    case Prim::Sub: return b_.CreateFSub(a, b);
    case Prim::Mul: return b_.CreateFMul(a, b);
    case Prim::Div: return b_.CreateFDiv(a, b);
    case Prim::CopySign: return b_.CreateBinaryIntrinsic(Intrinsic::copysign, a, b);
    case Prim::Max: return select(b_.CreateFCmpUNO(a, a), a, select(b_.CreateFCmpOGT(a, b), a, b));
    case Prim::Min: return select(b_.CreateFCmpUNO(a, a), a, select(b_.CreateFCmpOLT(a, b), a, b));
    case Prim::FMax: return select(b_.CreateFCmpUNO(b, b), a, select(b_.CreateFCmpOGT(a, b), a, b));
    case Prim::FMin: return select(b_.CreateFCmpUNO(b, b), a, select(b_.CreateFCmpOLT(a, b), a, b));
    case Prim::Eq: return b_.CreateFCmpOEQ(a, b);
    case Prim::Ne: return b_.CreateFCmpUNE(a, b);
    case Prim::Lt: return b_.CreateFCmpOLT(a, b);
    case Prim::Le: return b_.CreateFCmpOLE(a, b);
    case Prim::Gt: return b_.CreateFCmpOGT(a, b);
    case Prim::Ge: return b_.CreateFCmpOGE(a, b);
    default: break;
  }
  if (t != DType::F64) {
    if (Value* r = VectorMath(b_, *this).compute(p, a)) return r;
  }
  DType actual = t == DType::F64 ? DType::F64 : DType::F32;
  if (p == Prim::Rem || p == Prim::Mod) {
    if (Value* r = VectorMath(b_, *this).remainder(p, actual, a, b)) return r;
  }
  if (p == Prim::Sigmoid && t == DType::F64) {
    Value* e = call_function(Prim::Exp, actual, b_.CreateFNeg(a), nullptr);
    return b_.CreateFDiv(number(type, 1), b_.CreateFAdd(number(type, 1), e));
  }
  return call_function(p, actual, a, b);
}

// Quotient or remainder without traps: inactive lanes may have zero divisors, and min / -1 wraps.
Value* Primitives::divide(Prim p, DType t, Value* a, Value* b) {
  Type* type = a->getType();
  Value* zero = integer(type, 0);
  Value* one = integer(type, 1);
  unsigned bits = type->getScalarSizeInBits();
  bool with_sign = is_signed(t);
  Value* unsafe = b_.CreateICmpEQ(b, zero);
  Value* minus_one = nullptr;
  if (with_sign) {
    minus_one = b_.CreateICmpEQ(b, integer(type, -1));
    unsafe = b_.CreateOr(unsafe, minus_one);
  }
  Value* safe = b_.CreateSelect(unsafe, one, b);
  Value* q;
  if (bits <= 32 && lanes_of(a) > 1) {
    // This is exact: the quotient of two 32-bit integers in double never rounds across an integer.
    Type* f64 = like(b_.getDoubleTy(), a);
    Value* x = with_sign ? b_.CreateSIToFP(a, f64) : b_.CreateUIToFP(a, f64);
    Value* y = with_sign ? b_.CreateSIToFP(safe, f64) : b_.CreateUIToFP(safe, f64);
    Value* d = b_.CreateFDiv(x, y);
    q = with_sign ? b_.CreateFPToSI(d, type) : b_.CreateFPToUI(d, type);
  } else {
    q = with_sign ? b_.CreateSDiv(a, safe) : b_.CreateUDiv(a, safe);
  }
  if (minus_one) q = b_.CreateSelect(minus_one, b_.CreateNeg(a), q);
  if (p == Prim::Div) return q;
  Value* rest = b_.CreateSub(a, b_.CreateMul(q, b));
  if (p == Prim::Rem) return rest;
  Value* adjust = nullptr;
  if (with_sign) {
    Value* differ = b_.CreateICmpSLT(b_.CreateXor(a, b), zero);
    adjust = b_.CreateAnd(b_.CreateICmpNE(rest, zero), differ);
  }
  if (p == Prim::FloorDiv) return adjust ? b_.CreateSelect(adjust, b_.CreateSub(q, one), q) : q;
  return adjust ? b_.CreateSelect(adjust, b_.CreateAdd(rest, b), rest) : rest;  // Mod
}

Value* Primitives::integer_compute(Prim p, DType t, Value* a, Value* b) {
  Type* type = a->getType();
  bool with_sign = t != DType::Bool && is_signed(t);
  bool truth = t == DType::Bool;
  auto no = [&] { return integer(like(b_.getInt1Ty(), a), 0); };
  switch (p) {
    case Prim::Neg: return b_.CreateNeg(a);
    case Prim::Abs: return with_sign ? b_.CreateSelect(b_.CreateICmpSLT(a, integer(type, 0)), b_.CreateNeg(a), a) : a;
    case Prim::Not: return b_.CreateNot(a);
    case Prim::Floor:
    case Prim::Ceil:
    case Prim::Trunc:
    case Prim::Round: return a;
    case Prim::IsNan:
    case Prim::IsInf: return no();
    case Prim::SignBit: return with_sign ? b_.CreateICmpSLT(a, integer(type, 0)) : no();
    case Prim::Add: return truth ? b_.CreateOr(a, b) : b_.CreateAdd(a, b);
    case Prim::Sub: return b_.CreateSub(a, b);
    case Prim::Mul: return truth ? b_.CreateAnd(a, b) : b_.CreateMul(a, b);
    case Prim::Div:
    case Prim::FloorDiv:
    case Prim::Rem:
    case Prim::Mod: return divide(p, t, a, b);
    case Prim::Pow: return call_function(p, t, a, b);
    case Prim::Max:
    case Prim::FMax: return b_.CreateBinaryIntrinsic(with_sign ? Intrinsic::smax : Intrinsic::umax, a, b);
    case Prim::Min:
    case Prim::FMin: return b_.CreateBinaryIntrinsic(with_sign ? Intrinsic::smin : Intrinsic::umin, a, b);
    case Prim::And: return b_.CreateAnd(a, b);
    case Prim::Or: return b_.CreateOr(a, b);
    case Prim::Xor: return b_.CreateXor(a, b);
    case Prim::Shl:
    case Prim::Shr: {
      unsigned bits = type->getScalarSizeInBits();
      Value* outside = b_.CreateICmpUGE(b, integer(type, bits));  // negative counts are huge as unsigned numbers
      if (p == Prim::Shr && with_sign) {
        return b_.CreateAShr(a, b_.CreateSelect(outside, integer(type, bits - 1), b));
      }
      Value* count = b_.CreateSelect(outside, integer(type, 0), b);
      Value* r = p == Prim::Shl ? b_.CreateShl(a, count) : b_.CreateLShr(a, count);
      return b_.CreateSelect(outside, integer(type, 0), r);
    }
    case Prim::Eq: return b_.CreateICmpEQ(a, b);
    case Prim::Ne: return b_.CreateICmpNE(a, b);
    case Prim::Lt: return with_sign ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    case Prim::Le: return with_sign ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
    case Prim::Gt: return with_sign ? b_.CreateICmpSGT(a, b) : b_.CreateICmpUGT(a, b);
    case Prim::Ge: return with_sign ? b_.CreateICmpSGE(a, b) : b_.CreateICmpUGE(a, b);
    default: break;
  }
  VESTA_CHECK(false, "primitive {} is not defined on {}", vesta::name(p), vesta::name(t));
}

}  // namespace vesta::codegen
