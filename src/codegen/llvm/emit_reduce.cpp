// Reductions: each vector piece of a body has an accumulator, and they are combined after the loops. Float sums over
// long ranges are combined in a tree, running combinations by shuffles.
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "base/check.h"
#include "codegen/llvm/emitter.h"
#include "loops/scalar.h"

namespace vesta::codegen {

using llvm::Value;
using loops::Instr;
using loops::InstrKind;
using loops::Ref;
using Pair = std::pair<Value*, Value*>;

namespace {
bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }
}  // namespace

llvm::Constant* Emitter::identity(ReduceOp op, DType t, int lanes) {
  llvm::Type* type = p_.register_type(t, lanes);
  const loops::Scalar x = loops::identity(op, t);
  if (is_float(t)) return llvm::ConstantFP::get(type, x.f);
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(x.i), is_signed(t));
}

Value* Emitter::combine(ReduceOp op, DType t, Value* a, Value* b) {
  switch (op) {
    case ReduceOp::Sum: return p_.compute(Prim::Add, t, a, b);
    case ReduceOp::Prod: return p_.compute(Prim::Mul, t, a, b);
    case ReduceOp::Max: return p_.compute(Prim::Max, t, a, b);
    case ReduceOp::Min: return p_.compute(Prim::Min, t, a, b);
    default: break;
  }
  Value* x = p_.cast(t, DType::Bool, a);
  Value* y = p_.cast(t, DType::Bool, b);
  return p_.cast(DType::Bool, t, op == ReduceOp::Any ? b_.CreateOr(x, y) : b_.CreateAnd(x, y));
}

// The pair (value, position) that wins: NaN beats all, then the larger (or smaller) value, then the first position.
Pair Emitter::better(ReduceOp op, DType t, Pair a, Pair b) {
  Value* wins = p_.compute(op == ReduceOp::ArgMax ? Prim::Gt : Prim::Lt, t, b.first, a.first);
  Value* same = p_.compute(Prim::Eq, t, b.first, a.first);
  if (is_float(t)) {
    Value* a_nan = b_.CreateFCmpUNO(a.first, a.first);
    Value* b_nan = b_.CreateFCmpUNO(b.first, b.first);
    wins = b_.CreateOr(wins, b_.CreateAnd(b_nan, b_.CreateNot(a_nan)));
    same = b_.CreateOr(same, b_.CreateAnd(b_nan, a_nan));
  }
  wins = b_.CreateOr(wins, b_.CreateAnd(same, b_.CreateICmpSLT(b.second, a.second)));
  return {b_.CreateSelect(wins, b.first, a.first), b_.CreateSelect(wins, b.second, a.second)};
}

void Emitter::begin_reductions(const loops::Stage& s, int count) {
  accumulators_.clear();
  carries_.clear();
  int level = shape_.outside;
  // How often the innermost body runs for one accumulator. An unknown count is taken as large.
  int64_t trips = 1;
  bool known = true;
  for (const Loop& l : shape_.loops) {
    known = known && l.extent.is_constant();
    if (known) trips *= l.lanes ? (l.extent.constant() + lanes_ - 1) / lanes_ : l.extent.constant();
  }
  if (shape_.kind == LoopKind::Rows) trips /= count;
  bool sums = false;
  at(level);
  for (Ref r : s.body) {
    const Instr& i = k_.instrs[r];
    llvm::Type* type = p_.register_type(i.dtype, lanes_);
    if (i.kind == InstrKind::Scan) {
      bool rows = shape_.kind == LoopKind::Rows;
      auto& carry = carries_[r];
      for (int u = 0; u < count; ++u) {
        carry[static_cast<size_t>(u)] = p_.stack(rows ? type->getScalarType() : type, "carry");
        b_.CreateStore(identity(i.reduce, i.dtype, rows ? 1 : lanes_), carry[static_cast<size_t>(u)]);
      }
    }
    if (i.kind != InstrKind::Accumulate) continue;
    Accumulator a;
    a.ref = r;
    bool tree = i.reduce == ReduceOp::Sum && is_float(i.dtype);
    sums = sums || tree;
    for (size_t u = 0; u < static_cast<size_t>(count); ++u) {
      auto fresh = [&](llvm::Type* of, llvm::Constant* start) {
        llvm::AllocaInst* slot = p_.stack(of, "accumulator");
        b_.CreateStore(start, slot);
        return slot;
      };
      a.value[u] = fresh(type, identity(i.reduce, i.dtype, lanes_));
      if (is_arg(i.reduce)) {
        llvm::Type* positions = p_.register_type(DType::I64, lanes_);
        a.position[u] = fresh(positions, llvm::ConstantInt::get(positions, INT64_MAX));
      }
      if (tree) {
        a.second[u] = fresh(type, llvm::Constant::getNullValue(type));
        a.third[u] = fresh(type, llvm::Constant::getNullValue(type));
      }
    }
    accumulators_.push_back(a);
  }
  int64_t piece = shape_.kind == LoopKind::Rows ? 64 : 32;
  cascade_ = sums && (!known || trips > 2 * piece);
  flush_every_ = 1;
  if (!cascade_) return;
  const Loop& last = shape_.loops.back();
  if (last.extent.is_constant()) {
    int64_t own = std::max<int64_t>(1, last.extent.constant() / (last.lanes ? int64_t{lanes_} * count : 1));
    if (own < piece) flush_every_ = piece / own;
  }
  pieces_ = p_.stack(b_.getInt64Ty(), "pieces");
  b_.CreateStore(b_.getInt64(0), pieces_);
}

// Ends a piece: adds its sums to the next level of the tree.
void Emitter::flush() {
  Value* n = b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), pieces_), b_.getInt64(1));
  b_.CreateStore(n, pieces_);
  llvm::Instruction* end = scopes_.back().end;
  auto every = [&](int64_t k, auto&& then) {
    if (k == 1) {
      then();
      return;
    }
    Value* due = b_.CreateICmpEQ(b_.CreateURem(n, b_.getInt64(static_cast<uint64_t>(k))), b_.getInt64(0));
    b_.SetInsertPoint(llvm::SplitBlockAndInsertIfThen(due, end, false));
    then();
    b_.SetInsertPoint(end);
  };
  auto move = [&](auto from, auto to) {
    for (const Accumulator& a : accumulators_) {
      if (!a.second[0]) continue;
      for (size_t u = 0; a.value[u] && u < kMaxUnroll; ++u) {
        llvm::Type* type = (a.*from)[u]->getAllocatedType();
        Value* sum = b_.CreateFAdd(b_.CreateLoad(type, (a.*to)[u]), b_.CreateLoad(type, (a.*from)[u]));
        b_.CreateStore(sum, (a.*to)[u]);
        b_.CreateStore(llvm::Constant::getNullValue(type), (a.*from)[u]);
      }
    }
  };
  every(flush_every_, [&] { move(&Accumulator::value, &Accumulator::second); });
  every(flush_every_ * 64, [&] { move(&Accumulator::second, &Accumulator::third); });
}

void Emitter::accumulate(Ref r, int u) {
  const Instr& i = k_.instrs[r];
  const Accumulator* a = nullptr;
  for (const Accumulator& candidate : accumulators_) {
    if (candidate.ref == r) a = &candidate;
  }
  VESTA_CHECK(a, "accumulate {} outside its loop", r);
  Value* x = lanes(i.in[0], u);
  Value* position = is_arg(i.reduce) ? lanes(i.in[1], u) : nullptr;
  at(shape_.innermost);
  llvm::AllocaInst* slot = a->value[static_cast<size_t>(u)];
  Value* old = b_.CreateLoad(slot->getAllocatedType(), slot);
  Value* dead = shape_.kind == LoopKind::Rows ? mask_ : nullptr;  // an inactive column is never stored
  if (position) {
    llvm::AllocaInst* at_slot = a->position[static_cast<size_t>(u)];
    Value* old_position = b_.CreateLoad(at_slot->getAllocatedType(), at_slot);
    Pair now = better(i.reduce, i.dtype, {old, old_position}, {x, position});
    if (dead) now = {b_.CreateSelect(dead, now.first, old), b_.CreateSelect(dead, now.second, old_position)};
    b_.CreateStore(now.first, slot);
    b_.CreateStore(now.second, at_slot);
    return;
  }
  Value* now = combine(i.reduce, i.dtype, x, old);
  if (dead) now = b_.CreateSelect(dead, now, old);
  b_.CreateStore(now, slot);
}

void Emitter::end_reductions() {
  at(shape_.outside);
  for (const Accumulator& a : accumulators_) {
    const Instr& i = k_.instrs[a.ref];
    std::vector<Value*> values, positions;
    for (size_t u = 0; u < kMaxUnroll && a.value[u]; ++u) {
      llvm::Type* type = a.value[u]->getAllocatedType();
      Value* v = b_.CreateLoad(type, a.value[u]);
      if (cascade_ && a.second[u]) {
        v = b_.CreateFAdd(b_.CreateFAdd(b_.CreateLoad(type, a.third[u]), b_.CreateLoad(type, a.second[u])), v);
      }
      values.push_back(v);
      if (a.position[u]) positions.push_back(b_.CreateLoad(a.position[u]->getAllocatedType(), a.position[u]));
    }
    if (shape_.kind == LoopKind::Rows) {
      // Combines the pieces, then the halves of the vector, pairwise down to one element.
      auto join = [&](Pair x, Pair y) -> Pair {
        if (!x.second) return {combine(i.reduce, i.dtype, x.first, y.first), nullptr};
        return better(i.reduce, i.dtype, x, y);
      };
      std::vector<Pair> pairs;
      for (size_t u = 0; u < values.size(); ++u)
        pairs.emplace_back(values[u], positions.empty() ? nullptr : positions[u]);
      while (pairs.size() > 1) {
        for (size_t n = 0; n < pairs.size() / 2; ++n) pairs[n] = join(pairs[2 * n], pairs[2 * n + 1]);
        pairs.resize(pairs.size() / 2);
      }
      Pair all = pairs[0];
      for (int width = lanes_ / 2; width >= 1; width /= 2) {
        auto part = [&](Value* v, int first) { return v ? p_.sub_vector(v, first, width) : nullptr; };
        all = join({part(all.first, 0), part(all.second, 0)}, {part(all.first, width), part(all.second, width)});
      }
      values = {all.first};
      positions.clear();
      if (all.second) positions = {all.second};
    }
    results_[a.ref] = std::move(values);
    positions_[a.ref] = std::move(positions);
  }
  accumulators_.clear();
  cascade_ = false;
}

Value* Emitter::scan(Ref r, int u) {
  const Instr& i = k_.instrs[r];
  Value* x = lanes(i.in[0], u);
  at(shape_.innermost);
  llvm::AllocaInst* slot = carries_.at(r)[static_cast<size_t>(u)];
  Value* carry = b_.CreateLoad(slot->getAllocatedType(), slot);
  if (shape_.kind != LoopKind::Rows || lanes_ == 1) {
    x = combine(i.reduce, i.dtype, carry, x);
    b_.CreateStore(x, slot);
    return x;
  }
  llvm::Constant* neutral = identity(i.reduce, i.dtype, lanes_);
  for (int distance = 1; distance < lanes_; distance *= 2) {
    llvm::SmallVector<int, 64> order;
    for (int l = 0; l < lanes_; ++l) order.push_back(l < distance ? lanes_ + l : l - distance);
    x = combine(i.reduce, i.dtype, b_.CreateShuffleVector(x, neutral, order), x);
  }
  x = combine(i.reduce, i.dtype, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), carry), x);
  b_.CreateStore(b_.CreateExtractElement(x, static_cast<uint64_t>(lanes_ - 1)), slot);
  return x;
}

}  // namespace vesta::codegen
