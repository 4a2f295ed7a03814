// Index expressions: 64-bit scalars, whose terms are hoisted one by one, and vectors of 32 or 64 bits where lanes
// differ.

#include "base/check.h"
#include "codegen/llvm/emitter.h"

namespace vesta::codegen {

using llvm::Value;

Value* Emitter::scalar(Expr e) {
  if (e.is_constant()) return b_.getInt64(static_cast<uint64_t>(e.constant()));
  if (Value* known = find(&Scope::scalars, e)) return known;
  Value* v = scalar_parts(e);
  scopes_[scope_index(shape_.level_of(e))].scalars[e] = v;
  return v;
}

Value* Emitter::scalar_parts(Expr e) {
  const ExprNode& n = *e.node();
  int level = shape_.level_of(e);
  switch (n.kind) {
    case ExprKind::Symbol: {
      VESTA_CHECK(n.symbol_kind == SymbolKind::Indirect, "symbol {} has no value here", n.name);
      const loops::Instr& binder = k_.instrs[shape_.binder(e)];
      Value* v = get(binder.in[0], 0);
      at(level);
      return p_.cast(value_type(k_, binder.in[0]), DType::I64, v);
    }
    case ExprKind::Sum: {
      // Terms of an outer level are summed at that level.
      std::map<int, std::vector<const Term*>> by_level;
      for (const Term& t : n.terms) by_level[shape_.level_of(t.factor)].push_back(&t);
      Value* sum = nullptr;
      for (const auto& [term_level, terms] : by_level) {
        for (const Term* t : terms) {
          Value* factor = scalar(t->factor);
          at(term_level);
          if (t->coefficient != 1) factor = b_.CreateMul(factor, b_.getInt64(static_cast<uint64_t>(t->coefficient)));
          sum = sum ? b_.CreateAdd(sum, factor) : factor;
        }
      }
      return n.constant == 0 ? sum : b_.CreateAdd(sum, b_.getInt64(static_cast<uint64_t>(n.constant)));
    }
    case ExprKind::Product: {
      std::vector<Value*> factors;
      for (Expr f : n.operands) factors.push_back(scalar(f));
      at(level);
      Value* product = factors[0];
      for (size_t i = 1; i < factors.size(); ++i) product = b_.CreateMul(product, factors[i]);
      return product;
    }
    default: break;
  }
  Value* a = scalar(n.operands[0]);
  Value* b = scalar(n.operands[1]);
  at(level);
  bool plain = lower_bound(n.operands[0]).value_or(-1) >= 0 && lower_bound(n.operands[1]).value_or(0) >= 1;
  return divide(n.kind, a, b, plain);
}

// FloorDiv, Mod, Min or Max. `plain`: the dividend is not negative and the divisor is positive.
Value* Emitter::divide(ExprKind kind, Value* a, Value* b, bool plain) {
  switch (kind) {
    case ExprKind::Min: return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b);
    case ExprKind::Max: return b_.CreateSelect(b_.CreateICmpSGT(a, b), a, b);
    default: break;
  }
  bool quotient = kind == ExprKind::FloorDiv;
  if (plain) return quotient ? b_.CreateUDiv(a, b) : b_.CreateURem(a, b);
  DType t = a->getType()->getScalarSizeInBits() == 32 ? DType::I32 : DType::I64;
  return p_.compute(quotient ? Prim::FloorDiv : Prim::Mod, t, a, b);
}

bool Emitter::fits_32_bits(Expr e) {
  auto low = lower_bound(e), high = upper_bound(e);
  if (!low || !high || *low < INT32_MIN || *high > INT32_MAX) return false;
  if (e.is_constant()) return true;
  const ExprNode& n = *e.node();
  // Sums and products may wrap in between; operands of divisions must not.
  for (const Term& t : n.terms) {
    if (t.coefficient < INT32_MIN || t.coefficient > INT32_MAX || !fits_32_bits(t.factor)) return false;
  }
  for (Expr o : n.operands) {
    if (!fits_32_bits(o)) return false;
  }
  return true;
}

Value* Emitter::vector(Expr e, int u, llvm::Type* element) {
  auto splat = [&](Value* v) {
    return b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreateTrunc(v, element));
  };
  int level = shape_.level_of(e);
  if (!shape_.is_vector(e)) {
    Value* v = scalar(e);
    at(level);
    return splat(v);
  }
  int key = 2 * u + (element->getScalarSizeInBits() == 32);
  if (Value* known = find(&Scope::vectors, std::pair(e, key))) return known;
  const ExprNode& n = *e.node();
  Value* v = nullptr;
  switch (n.kind) {
    case ExprKind::Symbol:
      if (e == shape_.lane) {
        Value* first = scalar(e);
        at(level);
        llvm::SmallVector<llvm::Constant*, 64> iota;
        for (int i = 0; i < lanes_; ++i) {
          const int place = pairs_ ? (u & ~1) * lanes_ + 2 * i + u % 2 : u * lanes_ + i;
          iota.push_back(llvm::ConstantInt::get(element, static_cast<uint64_t>(place)));
        }
        v = b_.CreateAdd(splat(first), llvm::ConstantVector::get(iota));
      } else {
        const loops::Instr& binder = k_.instrs[shape_.binder(e)];
        Value* in = lanes(binder.in[0], u);
        at(level);
        DType to = element->getScalarSizeInBits() == 32 ? DType::I32 : DType::I64;
        v = p_.cast(value_type(k_, binder.in[0]), to, in);
      }
      break;
    case ExprKind::Sum: {
      Value* sum = nullptr;
      Expr uniform = n.constant;
      for (const Term& t : n.terms) {
        if (!shape_.is_vector(t.factor)) {
          uniform = uniform + Expr(t.coefficient) * t.factor;
          continue;
        }
        Value* factor = vector(t.factor, u, element);
        at(level);
        llvm::Constant* c = llvm::ConstantInt::get(factor->getType(), static_cast<uint64_t>(t.coefficient), true);
        if (t.coefficient != 1) factor = b_.CreateMul(factor, c);
        sum = sum ? b_.CreateAdd(sum, factor) : factor;
      }
      if (!uniform.is_constant(0)) {
        Value* rest = vector(uniform, u, element);
        at(level);
        sum = b_.CreateAdd(sum, rest);
      }
      v = sum;
      break;
    }
    case ExprKind::Product: {
      std::vector<Value*> factors;
      for (Expr f : n.operands) factors.push_back(vector(f, u, element));
      at(level);
      v = factors[0];
      for (size_t i = 1; i < factors.size(); ++i) v = b_.CreateMul(v, factors[i]);
      break;
    }
    default: {
      Value* a = vector(n.operands[0], u, element);
      Value* b = vector(n.operands[1], u, element);
      at(level);
      bool plain = lower_bound(n.operands[0]).value_or(-1) >= 0 && lower_bound(n.operands[1]).value_or(0) >= 1;
      v = divide(n.kind, a, b, plain);
      break;
    }
  }
  scopes_[scope_index(level)].vectors[{e, key}] = v;
  return v;
}

Value* Emitter::index_value(Expr e, int u, DType t) {
  if (lanes_ == 1 || !shape_.is_vector(e)) {
    Value* v = scalar(e);
    at(shape_.level_of(e));
    return p_.cast(DType::I64, t, v);
  }
  bool narrow = fits_32_bits(e);
  Value* v = vector(e, u, narrow ? b_.getInt32Ty() : b_.getInt64Ty());
  at(shape_.level_of(e));
  return p_.cast(narrow ? DType::I32 : DType::I64, t, v);
}

bool Emitter::compares_lanes(Ref r) const {
  const loops::Instr& i = k_.instrs[r];
  const bool compares = i.prim == Prim::Lt || i.prim == Prim::Le || i.prim == Prim::Gt || i.prim == Prim::Ge ||
                        i.prim == Prim::Eq || i.prim == Prim::Ne;
  return i.kind == loops::InstrKind::Compute && compares && lanes_ > 1 && shape_.vector[r] &&
         k_.instrs[i.in[0]].dtype == DType::I64 && k_.instrs[i.in[1]].dtype == DType::I64;
}

Value* Emitter::narrow_lanes(Ref r) {
  const std::pair<Ref, int> key(r, kNarrow);
  if (Value* known = find(&Scope::splats, key)) return known;
  Value* v = get(r, 0);
  at(shape_.level[r]);
  v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, v, number(INT32_MIN));
  v = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, v, number(INT32_MAX));
  v = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), b_.CreateTrunc(v, b_.getInt32Ty()));
  scopes_[scope_index(shape_.level[r])].splats[key] = v;
  return v;
}

Value* Emitter::compare_indices(Ref r, int u) {
  if (const auto it = known_.find(r); it != known_.end()) return b_.getInt1(it->second);
  if (!compares_lanes(r)) return nullptr;
  const loops::Instr& i = k_.instrs[r];
  const std::array sides{loops::index_or_constant(k_.instrs[i.in[0]]), loops::index_or_constant(k_.instrs[i.in[1]])};
  for (size_t n = 0; n < 2; ++n) {
    if (sides[n]) {
      // Beside a number that is clamped, an index must not reach the bounds of 32 bits.
      const bool clamped = !sides[1 - n];
      if (!fits_32_bits(*sides[n])) return nullptr;
      if (clamped && (*lower_bound(*sides[n]) == INT32_MIN || *upper_bound(*sides[n]) == INT32_MAX)) return nullptr;
    } else if (shape_.vector[i.in[n]]) {
      return nullptr;
    }
  }
  std::array<Value*, 2> in{};
  for (size_t n = 0; n < 2; ++n) in[n] = sides[n] ? vector(*sides[n], u, b_.getInt32Ty()) : narrow_lanes(i.in[n]);
  at(shape_.level[r]);
  return p_.compute(i.prim, DType::I32, in[0], in[1], nullptr);
}

}  // namespace vesta::codegen
