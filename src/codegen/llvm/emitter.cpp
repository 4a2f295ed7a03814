#include "codegen/llvm/emitter.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

#include "base/check.h"

namespace vesta::codegen {

using llvm::BasicBlock;
using llvm::Value;
using loops::Instr;
using loops::InstrKind;

Emitter::Scope::Scope(int level, llvm::Instruction* end)
    : level(level), end(end), vectors([](const std::pair<Expr, int>& a, const std::pair<Expr, int>& b) {
        return a.first == b.first ? a.second < b.second : a.first.before(b.first);
      }) {}

Emitter::Emitter(Shape shape, llvm::Module& module, llvm::Function& function, const Target& target,
                 std::function<void(int64_t)> grows)
    : grows_(std::move(grows)),
      shape_(std::move(shape)),
      k_(shape_.kernel),
      m_(module),
      f_(function),
      b_(module.getContext()),
      p_(b_, module, target),
      lanes_(shape_.lanes) {}

// ---- Scopes ---------------------------------------------------------------------------------------------------------

size_t Emitter::scope_index(int level) const {
  for (size_t i = scopes_.size(); i-- > 0;) {
    if (scopes_[i].level <= level) return i;
  }
  return 0;
}

void Emitter::at(int level) { b_.SetInsertPoint(scopes_[scope_index(level)].end); }

void Emitter::loop(Value* start, Value* limit, Value* step, int before_level, int body_level, bool surely_runs,
                   Expr var, const std::function<void(Value*)>& body) {
  const auto *first = llvm::dyn_cast<llvm::ConstantInt>(start), *last = llvm::dyn_cast<llvm::ConstantInt>(limit);
  if (first && last) {
    if (first->getSExtValue() >= last->getSExtValue()) return;
    surely_runs = true;
  }
  llvm::Instruction* end = scopes_.back().end;
  BasicBlock* here = end->getParent();
  BasicBlock* exit = here->splitBasicBlock(end);
  here->getTerminator()->eraseFromParent();
  llvm::LLVMContext& context = m_.getContext();
  BasicBlock* before = BasicBlock::Create(context, "before", &f_, exit);
  BasicBlock* head = BasicBlock::Create(context, "body", &f_, exit);
  BasicBlock* latch = BasicBlock::Create(context, "latch", &f_, exit);
  b_.SetInsertPoint(here);
  if (surely_runs) {
    b_.CreateBr(before);
  } else {
    b_.CreateCondBr(b_.CreateICmpSLT(start, limit), before, exit);
  }
  b_.SetInsertPoint(before);
  llvm::Instruction* before_end = b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  llvm::Instruction* body_end = b_.CreateBr(latch);
  b_.SetInsertPoint(latch);
  Value* next = b_.CreateAdd(i, step, "", true, true);
  b_.CreateCondBr(b_.CreateICmpSLT(next, limit), head, exit);

  scopes_.emplace_back(before_level, before_end);
  scopes_.emplace_back(body_level, body_end);
  if (!var.is_constant()) scopes_.back().scalars[var] = i;
  b_.SetInsertPoint(body_end);
  body(i);
  scopes_.pop_back();
  scopes_.pop_back();
  i->addIncoming(start, before_end->getParent());
  i->addIncoming(next, latch);
  b_.SetInsertPoint(scopes_.back().end);
}

void Emitter::call_shared(const SharedFunction& function, const std::vector<Value*>& arguments) {
  shared_.try_emplace(function.name, function);
  b_.CreateCall(m_.getOrInsertFunction(function.name, function.type(m_.getContext())), arguments);
}

// ---- Values ---------------------------------------------------------------------------------------------------------

Value* Emitter::get(Ref r, int u) {
  if (!shape_.vector[r]) u = 0;
  if (Value* known = find(&Scope::values, std::pair(r, u))) return known;
  Value* v = emit_value(r, u);
  scopes_[scope_index(shape_.level[r])].values[{r, u}] = v;
  return v;
}

Value* Emitter::lanes(Ref r, int u) {
  Value* v = get(r, u);
  if (lanes_ == 1 || shape_.vector[r]) return v;
  if (Value* known = find(&Scope::splats, std::pair(r, 0))) return known;
  at(shape_.level[r]);
  Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), v);
  scopes_[scope_index(shape_.level[r])].splats[{r, 0}] = splat;
  return splat;
}

Value* Emitter::emit_value(Ref r, int u) {
  if (++emitted_ == checked_at_) {
    grows_(f_.getInstructionCount());
    checked_at_ *= 2;
  }
  const Instr& i = k_.instrs[r];
  int level = shape_.level[r];
  auto operand = [&](size_t n) { return shape_.vector[r] ? lanes(i.in[n], u) : get(i.in[n], 0); };
  switch (i.kind) {
    case InstrKind::Constant: return p_.constant(i.dtype, i.fimm, i.imm);
    case InstrKind::Index: return index_value(i.index, u, i.dtype);
    case InstrKind::Load: return load(r, u);
    case InstrKind::Compute: {
      if (i.prim == Prim::Select) {
        if (Value* v = load_selected(r, u)) return v;
      }
      if (Value* v = compare_indices(r, u)) return v;
      if (Value* v = one_plus_erf(r, u)) return v;
      std::array<Value*, 3> in{};
      for (int n = 0; n < arity(i.prim); ++n) in[static_cast<size_t>(n)] = operand(static_cast<size_t>(n));
      at(level);
      return p_.compute(i.prim, compute_type(k_, i), in[0], in[1], in[2]);
    }
    case InstrKind::Cast: {
      Value* in = operand(0);
      at(level);
      return p_.cast(value_type(k_, i.in[0]), i.dtype, in);
    }
    case InstrKind::Result: return (i.imm == 1 ? positions_ : results_).at(i.in[0]).at(static_cast<size_t>(u));
    case InstrKind::Scan: return scan(r, u);
    case InstrKind::RowLoad: {
      Value* pointer = row_pointer(i.slot, pairs_ ? u & ~1 : u);
      at(level);
      if (pairs_) return load_pair(i.dtype, pointer, r, u);
      Value* v = load_vector(p_.memory_type(i.dtype, lanes_), pointer, element_size(i.dtype), nullptr);
      return p_.from_memory(i.dtype, v);
    }
    default: VESTA_CHECK(false, "instruction {} has no value", r);
  }
}

Value* Emitter::one_plus_erf(Ref r, int u) {
  const Ref erf = loops::erf_beside_one(k_, k_.instrs[r]);
  if (erf == loops::kNoRef) return nullptr;
  const Ref x = k_.instrs[erf].in[0];
  Value* in = shape_.vector[r] ? lanes(x, u) : get(x, 0);
  at(shape_.level[r]);
  return p_.one_plus_erf(in);
}

// ---- Loops ----------------------------------------------------------------------------------------------------------

void Emitter::run() {
  BasicBlock* entry = BasicBlock::Create(m_.getContext(), "entry", &f_);
  b_.SetInsertPoint(entry);
  llvm::Instruction* end = b_.CreateRetVoid();
  scopes_.emplace_back(0, end);
  b_.SetInsertPoint(end);
  for (size_t i = 0; i < k_.buffers.size(); ++i) {
    Value* p = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), f_.getArg(0), i);
    buffers_.push_back(b_.CreateLoad(b_.getPtrTy(), p, fmt::format("b{}", i)));
  }
  for (size_t i = 0; i < k_.sizes.size(); ++i) {
    Value* p = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), f_.getArg(1), i);
    scopes_.back().scalars[k_.sizes[i]] = b_.CreateLoad(b_.getInt64Ty(), p, fmt::format("s{}", i));
  }
  const bool uses_matrices = k_.registers.depth > 0;
  VESTA_CHECK(!uses_matrices || has_feature(p_.target(), "amx-bf16"),
              "the kernel uses AMX registers, which this CPU does not have");
  if (uses_matrices && has_one_configuration())
    configure_matrices(number(k_.registers.rows), number(k_.registers.depth));
  items();
  if (uses_matrices) release_matrices();
  if (streamed_) {  // before the threads' barrier
    b_.SetInsertPoint(scopes_.back().end);
    b_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
  }
}

// Computes the parallel variables of a work item in the current scope. Counts are computed outside the loop; only the
// divisions are inside.
void Emitter::decode(Value* item) {
  std::vector<std::pair<Expr, Expr>> order;  // variable, count
  for (size_t i = 0; i < k_.ranges.size(); ++i) {
    const loops::Range& r = k_.ranges[i];
    if (r.kind != loops::RangeKind::Parallel) continue;
    if (shape_.kind == LoopKind::Columns && static_cast<int>(i) == k_.vector) {
      order.emplace_back(shape_.block_index, ceildiv(r.extent, k_.block));
    } else if (k_.registers.rows > 0 && r.var == shape_.row) {
      order.emplace_back(shape_.row_block, ceildiv(r.extent, k_.registers.row_block));
    } else {
      order.emplace_back(r.var, r.extent);
    }
  }
  Value* rest = item;
  for (size_t i = order.size(); i-- > 0;) {
    Value* value = rest;
    if (i > 0) {
      Value* count = scalar(order[i].second);
      b_.SetInsertPoint(scopes_.back().end);
      Value* quotient = b_.CreateUDiv(rest, count);
      value = b_.CreateSub(rest, b_.CreateMul(quotient, count));
      rest = quotient;
    }
    scopes_.back().scalars[order[i].first] = value;
  }
}

void Emitter::one_item() {
  at(2);
  if (k_.registers.rows > 0) {
    product_item();
  } else if (shape_.kind == LoopKind::Columns) {
    column_span();
  } else {
    stages();
  }
}

void Emitter::items() {
  if (k_.tile.rows > 0) {
    tiled_items(f_.getArg(3), f_.getArg(4), k_.tile.rows);
    return;
  }
  loop(f_.getArg(3), f_.getArg(4), 1, 0, 2, false, 0, [&](Value* item) {
    decode(item);
    one_item();
  });
}

Value* Emitter::tail_mask(Value* at, Value* limit) {
  Value* left = b_.CreateSub(limit, at);
  Value* most = b_.getInt64(static_cast<uint64_t>(lanes_));
  left = b_.CreateSelect(b_.CreateICmpSLT(left, most), left, most);
  Value* narrow = b_.CreateTrunc(left, b_.getInt32Ty());
  llvm::SmallVector<uint32_t, 64> iota;
  for (int i = 0; i < lanes_; ++i) iota.push_back(static_cast<uint32_t>(i));
  Value* numbers = llvm::ConstantDataVector::get(m_.getContext(), iota);
  return b_.CreateICmpULT(numbers, b_.CreateVectorSplat(static_cast<unsigned>(lanes_), narrow), "mask");
}

bool Emitter::single_masked_loop(int weight) const { return p_.target().avx512 && weight > 24; }

// Squares are already read in pairs, and the columns beside them are read one by one.
bool Emitter::takes_pairs() const { return shape_.kind == LoopKind::Columns && shape_.pairs[0] && !k_.tile.rows; }

int Emitter::column_unroll() const {
  int weight = 0, accumulators = 1;
  bool loops = false;
  for (const loops::Stage& s : k_.stages) {
    weight = std::max(weight, shape_.weight(s));
    loops = loops || s.loop;
    for (Ref r : s.body) {
      const Instr& i = k_.instrs[r];
      if (i.kind == InstrKind::Accumulate)
        accumulators += i.reduce == ReduceOp::ArgMax || i.reduce == ReduceOp::ArgMin ? 4 : 1;
    }
  }
  int u = !loops ? (weight <= 8 ? 2 : 1) : weight <= 8 ? 8 : weight <= 16 ? 4 : weight <= 40 ? 2 : 1;
  while (u > 1 && u * accumulators > 20) u /= 2;
  if (takes_pairs()) u = std::max(u, 2);
  while (u > 1 && !provably_divisible(k_.block, int64_t{u} * lanes_)) u /= 2;
  return u;
}

// The columns of one work item up to `limit`, divided at their turns (loops/turns.h), so that only the vector that
// contains a turn is masked. False: they are not divided.
bool Emitter::divided_span(Value* limit) {
  const Expr extent = k_.ranges[static_cast<size_t>(k_.vector)].extent;
  if (lanes_ == 1 || !extent.is_constant() || !k_.block.is_constant() || takes_pairs() || k_.tile.rows > 0)
    return false;
  const int64_t n = extent.constant(), block = std::min(n, k_.block.constant());
  const Expr first = shape_.block_index * k_.block;
  const loops::Turns turns = loops::turns_along(k_.instrs, shape_.lane, first + shape_.lane, n);
  if (!loops::divides_row(turns, block / lanes_, k_.instrs.size())) return false;

  Value* const base = block == n ? number(0) : scalar(first);
  at(2);
  const auto whole_vectors = [&](Value* v) { return b_.CreateAnd(v, number(-int64_t{lanes_})); };
  const auto smaller = [&](Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); };
  const auto larger = [&](Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), b, a); };
  Value* const whole = whole_vectors(limit);
  const int u = column_unroll();
  // Emits the columns before the turn at `next`. No condition changes in them.
  const auto between = [&](Value* from, Value* to, int64_t next) {
    known_.clear();
    for (const auto& [r, turn] : turns.conditions) known_[r] = (next <= turn.place) == turn.before;
    const std::vector<bool> vector = shape_.vector;
    shape_.drop_lanes(known_);
    Value* const groups = b_.CreateAdd(from, b_.CreateAnd(b_.CreateSub(to, from), number(-int64_t{u} * lanes_)));
    full_vectors(from, groups, u);
    if (u > 1) full_vectors(larger(from, groups), to, 1);
    shape_.vector = vector;
    known_.clear();
  };
  Value* from = number(0);
  for (const int64_t place : turns.places) {
    Value* const turn = smaller(larger(b_.CreateSub(number(place), base), number(0)), whole);
    Value* const begin = larger(from, whole_vectors(turn));
    Value* const end = larger(from, whole_vectors(b_.CreateAdd(turn, number(lanes_ - 1))));
    between(from, begin, place);
    if (place % lanes_ != 0) full_vectors(begin, end, 1);
    from = end;
  }
  between(from, whole, n);
  if (n % lanes_ != 0) partial_vector(whole, limit);
  return true;
}

// Emits the columns of one work item from `from` to `to`, without a mask, in groups of `count` vectors.
void Emitter::full_vectors(Value* from, Value* to, int count) {
  loop(from, to, int64_t{count} * lanes_, 2, 4, false, shape_.lane, [&](Value*) {
    count_ = count;
    stages();
  });
  at(2);
}

// Emits the columns of one work item from `from` on. They are fewer than a vector has lanes, and there may be none.
void Emitter::partial_vector(Value* from, Value* limit) {
  overlaps_ = columns_may_overlap();
  at(2);
  Value* start =
      overlaps_ ? b_.CreateSelect(b_.CreateICmpEQ(from, limit), limit, b_.CreateSub(limit, number(lanes_))) : from;
  loop(start, limit, lanes_, 2, 4, false, shape_.lane, [&](Value* at) {
    count_ = 1;
    mask_ = overlaps_ ? nullptr : tail_mask(at, limit);
    stages();
    mask_ = nullptr;
  });
  overlaps_ = false;
}

// Whether the last vector of a row, or of a block, may begin earlier, so that it is a whole one which computes some
// elements again: masked stores of AVX2 take as long as a dozen others on processors of AMD. `elements`: of the last
// block; 0: unknown.
bool Emitter::may_overlap(std::span<const loops::Stage> stages, int64_t elements) const {
  if (lanes_ == 1 || p_.target().avx512 || elements < lanes_ || k_.tile.rows > 0) return false;
  const auto happens_once = [&](Ref r) {
    switch (k_.instrs[r].kind) {
      case InstrKind::Load: return bool{shape_.ordered[r]};
      case InstrKind::Accumulate: return shape_.kind == LoopKind::Rows;
      case InstrKind::StoreAdd:
      case InstrKind::Scan:
      case InstrKind::RowStore: return true;
      default: return false;
    }
  };
  return std::ranges::none_of(stages, [&](const loops::Stage& s) {
    return shape_.pairs[index_of(s)] || std::ranges::any_of(s.body, happens_once);
  });
}

bool Emitter::columns_may_overlap() const {
  const Expr extent = k_.ranges[static_cast<size_t>(k_.vector)].extent;
  const bool known = extent.is_constant() && k_.block.is_constant();
  return may_overlap(k_.stages, known ? (extent.constant() - 1) % k_.block.constant() + 1 : 0);
}

// The columns of one work item, in groups of `u` vectors. The rest is processed one vector at a time, masked.
void Emitter::column_span() {
  const loops::Range& range = k_.ranges[static_cast<size_t>(k_.vector)];
  Expr block = k_.block;
  bool whole = provably_divisible(range.extent, block);
  bool full = lanes_ == 1 || provably_divisible(range.extent, lanes_);
  int u = column_unroll();
  int weight = 0;
  for (const loops::Stage& s : k_.stages) weight += shape_.weight(s);
  const bool one = range.extent.is_constant() && provably_at_least(block, range.extent);
  Value* limit = scalar(one ? range.extent : block);
  if (!whole && !one) {
    Value* left = scalar(range.extent - shape_.block_index * block);
    at(2);
    limit = b_.CreateSelect(b_.CreateICmpSLT(left, limit), left, limit);
  }
  if (divided_span(limit)) return;
  Value* done = b_.getInt64(0);
  bool one_masked = !whole && !full && u == 1 && single_masked_loop(weight);
  if (!one_masked) {
    Value* main = limit;
    if (!whole && (u > 1 || !full))
      main = b_.CreateAnd(limit, b_.getInt64(static_cast<uint64_t>(-int64_t{u} * lanes_)));
    loop(done, main, int64_t{u} * lanes_, 2, 4, whole || (u == 1 && full), shape_.lane, [&](Value*) {
      count_ = u;
      pairs_ = u > 1 && takes_pairs();
      stages();
      pairs_ = false;
    });
    done = main;
    if (whole || (u == 1 && full)) return;
  }
  if (!full && columns_may_overlap()) {
    Value* const vectors = b_.CreateAnd(limit, number(-int64_t{lanes_}));
    if (u > 1) full_vectors(done, vectors, 1);
    partial_vector(vectors, limit);
    return;
  }
  loop(done, limit, lanes_, 2, 4, one_masked, shape_.lane, [&](Value* at) {
    count_ = 1;
    mask_ = full ? nullptr : tail_mask(at, limit);
    stages();
    mask_ = nullptr;
  });
}

void Emitter::stages() {
  for (const loops::Stage& s : k_.stages) {
    if (s.loop && !shape_.loops.empty()) {
      loop_stage(s);
    } else {
      body(s);
    }
  }
}

void Emitter::body(const loops::Stage& s) {
  for (int u = 0; u < count_; ++u) {
    for (Ref r : s.body) effect(r, u);
  }
}

void Emitter::effect(Ref r, int u) {
  const Instr& i = k_.instrs[r];
  switch (i.kind) {
    case InstrKind::Store: store(r, u); break;
    case InstrKind::StoreAdd: store_add(r, u); break;
    case InstrKind::Accumulate: accumulate(r, u); break;
    case InstrKind::RowStore: {
      // In a row program with one loop, the padding of the row receives what a partial vector writes past the end.
      bool needs_mask = shape_.kind == LoopKind::Rows && shape_.loops.size() > 1;
      if (pairs_ && u % 2 == 0) break;  // its partner stores both
      Value* v = pairs_ ? stored_pair(i, u) : stored(i, u, true);
      Value* pointer = row_pointer(i.slot, pairs_ ? u - 1 : u);
      at(shape_.level[r]);
      store_vector(v, pointer, element_size(i.dtype), needs_mask ? mask_ : nullptr);
      break;
    }
    default:
      if (shape_.ordered[r]) get(r, u);
      break;
  }
}

void Emitter::loop_stage(const loops::Stage& s) {
  int count = count_;
  if (shape_.kind == LoopKind::Rows) count = row_unroll(s, shape_.loops.back().extent);
  begin_reductions(s, count);
  nest(s, 0);
  end_reductions();
}

void Emitter::nest(const loops::Stage& s, size_t depth) {
  const Loop& l = shape_.loops[depth];
  int level = shape_.outside + 2 * static_cast<int>(depth + 1);
  if (l.lanes) {
    row_span(s, l);
    return;
  }
  Value* limit = scalar(l.extent);
  at(level - 2);
  bool surely = lower_bound(l.extent).value_or(0) > 0;
  if (depth + 1 < shape_.loops.size()) {
    loop(b_.getInt64(0), limit, 1, level - 2, level, surely, l.var, [&](Value*) { nest(s, depth + 1); });
  } else {
    int64_t trips = l.extent.is_constant() ? l.extent.constant() : -1;
    innermost(b_.getInt64(0), limit, 1, trips, surely, l.var, [&] { body(s); });
  }
}

// A loop whose sums are split into pieces, so that each partial sum has at most some dozens of additions.
void Emitter::innermost(Value* start, Value* limit, int64_t step, int64_t trips, bool surely_runs, Expr var,
                        const std::function<void()>& body) {
  int level = shape_.innermost;
  int64_t piece = shape_.kind == LoopKind::Rows ? 64 : 32;
  if (!cascade_ || (trips >= 0 && trips <= piece)) {
    loop(start, limit, step, level - 2, level, surely_runs, var, [&](Value*) { body(); });
    if (cascade_) flush();
    return;
  }
  loop(start, limit, piece * step, level - 2, level - 1, surely_runs, 0, [&](Value* begin) {
    Value* last = b_.CreateAdd(begin, b_.getInt64(static_cast<uint64_t>(piece * step)));
    Value* end = b_.CreateSelect(b_.CreateICmpSLT(last, limit), last, limit);
    loop(begin, end, step, level - 1, level, true, var, [&](Value*) { body(); });
    flush();
  });
}

size_t Emitter::index_of(const loops::Stage& s) const { return static_cast<size_t>(&s - k_.stages.data()); }

int Emitter::row_unroll(const loops::Stage& s, Expr extent) const {
  if (lanes_ == 1) return 1;
  for (Ref r : s.body) {
    if (k_.instrs[r].kind == InstrKind::Scan || k_.instrs[r].kind == InstrKind::StoreAdd) return 1;
  }
  int weight = shape_.weight(s);
  int u = weight <= 3 ? 4 : weight <= 16 || shape_.pairs[index_of(s)] ? 2 : 1;
  if (extent.is_constant()) {
    int64_t pieces = extent.constant() / lanes_;
    while (u > 1 && (extent.constant() % lanes_ == 0 ? pieces % u != 0 : pieces < 2 * u)) u /= 2;
  }
  return u;
}

void Emitter::row_span(const loops::Stage& s, const Loop& l) {
  int u = row_unroll(s, l.extent);
  int weight = shape_.weight(s);
  bool known = l.extent.is_constant();
  int64_t n = known ? l.extent.constant() : 0;
  bool full = lanes_ == 1 || provably_divisible(l.extent, lanes_);
  int level = shape_.innermost;
  Value* limit = scalar(l.extent);
  at(level - 2);
  Value* done = b_.getInt64(0);
  int64_t step = int64_t{u} * lanes_;
  bool all_in_main = provably_divisible(l.extent, step);
  bool one_masked = !full && u == 1 && (single_masked_loop(weight) || (known && n < lanes_));
  const bool fetches =
      std::none_of((&s) + 1, k_.stages.data() + k_.stages.size(), [](const loops::Stage& later) { return later.loop; });
  if (!one_masked) {
    Value* main = all_in_main ? limit : b_.CreateAnd(limit, b_.getInt64(static_cast<uint64_t>(-step)));
    bool surely = lower_bound(l.extent).value_or(0) >= step;
    if (!known || n >= step) {
      innermost(done, main, step, known ? n / step : -1, surely, l.var, [&] {
        count_ = u;
        pairs_ = u > 1 && shape_.pairs[index_of(s)];
        body(s);
        if (fetches) prefetch_ahead(u);
        pairs_ = false;
      });
    }
    count_ = 1;
    if (all_in_main) return;
    done = main;
  }
  if (!full && known && may_overlap({&s, 1}, n)) {
    const auto one = [&] {
      count_ = 1;
      body(s);
    };
    const int64_t vectors = n / lanes_ * lanes_, from = one_masked ? 0 : n / step * step;
    innermost(number(from), number(vectors), lanes_, (vectors - from) / lanes_, true, l.var, one);
    overlaps_ = true;
    innermost(number(n - lanes_), number(n), lanes_, 1, true, l.var, one);
    overlaps_ = false;
    return;
  }
  bool surely = known ? n % step != 0 : one_masked && lower_bound(l.extent).value_or(0) > 0;
  int64_t trips = one_masked ? (known ? (n + lanes_ - 1) / lanes_ : -1) : u;
  innermost(done, limit, lanes_, trips, surely, l.var, [&] {
    count_ = 1;
    at(level);
    mask_ = full ? nullptr : tail_mask(scalar(l.var), limit);
    body(s);
    mask_ = nullptr;
  });
}

}  // namespace vesta::codegen
