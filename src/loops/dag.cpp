#include "loops/dag.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash_mix.h"
#include "loops/levels.h"
#include "loops/scalar.h"

namespace vesta::loops {

namespace {

size_t hash_of(const Instr& i) {
  size_t h = mix_hash(static_cast<size_t>(i.kind), static_cast<size_t>(i.dtype));
  h = mix_hash(h, static_cast<size_t>(i.prim));
  h = mix_hash(h, static_cast<size_t>(i.reduce));
  for (Ref r : i.in) h = mix_hash(h, r);
  h = mix_hash(h, static_cast<size_t>(i.imm));
  h = mix_hash(h, std::bit_cast<uint64_t>(i.fimm));
  h = mix_hash(h, static_cast<size_t>(i.buffer));
  return mix_hash(h, i.index.hash());
}

bool same(const Instr& a, const Instr& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.prim == b.prim && a.reduce == b.reduce && a.in == b.in &&
         a.imm == b.imm && std::bit_cast<uint64_t>(a.fimm) == std::bit_cast<uint64_t>(b.fimm) && a.buffer == b.buffer &&
         a.index == b.index;
}

// The operands of an instruction.
std::array<Ref, 3> of(Dag::ScalarRef a, Dag::ScalarRef b = {}) { return {a.id, b.id, kNoRef}; }

bool holds_integers(DType t) { return is_integral(t) || t == DType::Bool; }

}  // namespace

Expr LoopVariables::get(size_t k, Expr extent) {
  if (known_.size() <= k) known_.resize(k + 1);
  auto [it, fresh] = known_[k].emplace(extent, Expr(0));
  if (fresh) it->second = context_->loop_symbol("u" + std::to_string(k), extent);
  return it->second;
}

Dag::ScalarRef Dag::add(Instr instr) {
  size_t h = hash_of(instr);
  auto [begin, end] = numbering_.equal_range(h);
  for (auto it = begin; it != end; ++it) {
    if (same(instrs_[it->second], instr)) return {it->second, instr.dtype};
  }
  Ref r = static_cast<Ref>(instrs_.size());
  instrs_.push_back(std::move(instr));
  numbering_.emplace(h, r);
  return {r, instrs_[r].dtype};
}

Dag::ScalarRef Dag::constant(DType t, double v) {
  if (holds_integers(t)) return integer(t, static_cast<int64_t>(v));
  return add({.dtype = t, .fimm = t == DType::F32 ? static_cast<double>(static_cast<float>(v)) : v});
}

Dag::ScalarRef Dag::integer(DType t, int64_t v) {
  if (!holds_integers(t)) return constant(t, static_cast<double>(v));
  return add({.dtype = t, .imm = from_integer(t, v).i});
}

Dag::ScalarRef Dag::size(DType t, Expr e) {
  if (e.is_constant()) return integer(t, e.constant());
  return add({.kind = InstrKind::Index, .dtype = t, .index = e});
}

std::optional<Expr> Dag::affine(ScalarRef x) const {
  const Instr& i = instrs_.at(x.id);
  if (i.dtype != DType::I64) return std::nullopt;
  if (i.kind == InstrKind::Index) return i.index;
  if (i.kind == InstrKind::Constant && i.imm > INT64_MIN / 4 && i.imm < INT64_MAX / 4) return Expr(i.imm);
  return std::nullopt;
}

Dag::ScalarRef Dag::emit(Prim p, std::span<const ScalarRef> operands) {
  VESTA_CHECK(static_cast<int>(operands.size()) == arity(p), "{} takes {} operands, not {}", name(p), arity(p),
              operands.size());
  for (const ScalarRef& o : operands) VESTA_CHECK(o.id < instrs_.size(), "an operand of {} is undefined", name(p));
  DType t = p == Prim::Select ? operands[1].dtype : operands[0].dtype;
  // Index arithmetic stays an index expression, so that it can address memory.
  if (t == DType::I64 && (p == Prim::Add || p == Prim::Sub || p == Prim::Mul)) {
    auto a = affine(operands[0]), b = affine(operands[1]);
    if (a && b) {
      Expr e = p == Prim::Add ? *a + *b : p == Prim::Sub ? *a - *b : *a * *b;
      return size(t, e);
    }
  }
  if (p == Prim::Select) {
    const Instr& c = instrs_[operands[0].id];
    if (c.kind == InstrKind::Constant) return c.imm ? operands[1] : operands[2];
    if (operands[1].id == operands[2].id) return operands[1];
  }
  if (t == DType::Bool) {
    const auto known = [&](size_t k) -> std::optional<bool> {
      const Instr& i = instrs_[operands[k].id];
      return i.kind == InstrKind::Constant ? std::optional(i.imm != 0) : std::nullopt;
    };
    if (p == Prim::Not && known(0)) return integer(DType::Bool, !*known(0));
    if (p == Prim::And || p == Prim::Or) {
      for (size_t k = 0; k < 2; ++k) {
        if (const auto v = known(k)) return *v == (p == Prim::And) ? operands[1 - k] : operands[k];
      }
    }
  }
  if (t == DType::I64 && yields_bool(p) && arity(p) == 2) {
    auto a = affine(operands[0]), b = affine(operands[1]);
    if (a && b) {
      auto known = [&](bool yes, bool no) -> std::optional<bool> {
        return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt;
      };
      std::optional<bool> v;
      switch (p) {
        case Prim::Lt: v = known(provably_less(*a, *b), provably_at_least(*a, *b)); break;
        case Prim::Le: v = known(provably_at_least(*b, *a), provably_less(*b, *a)); break;
        case Prim::Gt: v = known(provably_less(*b, *a), provably_at_least(*b, *a)); break;
        case Prim::Ge: v = known(provably_at_least(*a, *b), provably_less(*a, *b)); break;
        default: break;
      }
      if (v) return integer(DType::Bool, *v);
    }
  }
  Instr i{.kind = InstrKind::Compute, .dtype = yields_bool(p) ? DType::Bool : t, .prim = p};
  for (size_t k = 0; k < operands.size(); ++k) i.in[k] = operands[k].id;
  return add(std::move(i));
}

Dag::ScalarRef Dag::cast(DType to, ScalarRef x) {
  if (to == x.dtype) return x;
  VESTA_CHECK(x.id < instrs_.size(), "a cast of an undefined value");
  const Instr& from = instrs_[x.id];
  // Rounding to one narrow type twice is the same as once. A value that was not rounded here stays: its NaN may have
  // other bits.
  if (from.kind == InstrKind::Cast && is_narrow(to) && x.dtype == DType::F32) {
    const Instr& narrow = instrs_[from.in[0]];
    if (narrow.kind == InstrKind::Cast && narrow.dtype == to) return {from.in[0], to};
  }
  if (from.kind == InstrKind::Constant) {
    if (holds_integers(x.dtype) && holds_integers(to)) return integer(to, from.imm);
    if (holds_integers(x.dtype) && (to == DType::F32 || to == DType::F64)) {
      return constant(to, to == DType::F32 ? static_cast<float>(from.imm) : static_cast<double>(from.imm));
    }
    if ((x.dtype == DType::F32 || x.dtype == DType::F64) && (to == DType::F32 || to == DType::F64)) {
      return constant(to, from.fimm);
    }
  }
  return add({.kind = InstrKind::Cast, .dtype = to, .in = of(x)});
}

bool Dag::in_order() const {
  return std::any_of(buffers_.begin(), buffers_.end(), [](const DagBuffer& b) { return b.in_order; });
}

int Dag::number_of(const DagBuffer& buffer) {
  for (size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].id == buffer.id) return static_cast<int>(b);
  }
  buffers_.push_back(buffer);
  buffers_.back().written = false;
  return static_cast<int>(buffers_.size()) - 1;
}

Dag::ScalarRef Dag::load(const DagBuffer& buffer, Expr offset, ScalarRef mask) {
  return add(
      {.kind = InstrKind::Load, .dtype = buffer.dtype, .in = of(mask), .buffer = number_of(buffer), .index = offset});
}

Expr Dag::as_index(ScalarRef x, ScalarRef assertion) {
  if (assertion.id == kNoRef)
    if (auto e = affine(x)) return *e;
  x = cast(DType::I64, x);
  for (const auto& [symbol, ref] : binders_) {
    if (instrs_[ref].in[0] == x.id && instrs_[ref].in[1] == assertion.id) return symbol;
  }
  Expr symbol = context()->indirect_symbol("t");
  binders_[symbol] =
      add({.kind = InstrKind::Indirect, .dtype = DType::I64, .in = of(x, assertion), .index = symbol}).id;
  return symbol;
}

Dag::ScalarRef Dag::logical_and(ScalarRef a, ScalarRef b) {
  auto is_true = [&](ScalarRef r) {
    return r.id == kNoRef || (instrs_[r.id].kind == InstrKind::Constant && instrs_[r.id].imm == 1);
  };
  if (is_true(a)) return is_true(b) ? ScalarRef{} : b;
  if (is_true(b)) return a;
  return bin(Prim::And, a, b);
}

Dag::ScalarRef Dag::reduce(ReduceOp op, ScalarRef x, ScalarRef position, int part) {
  const ScalarRef sum = add({.kind = InstrKind::Accumulate, .dtype = x.dtype, .reduce = op, .in = of(x, position)});
  return add({.kind = InstrKind::Result, .dtype = part == 1 ? DType::I64 : x.dtype, .in = of(sum), .imm = part});
}

Dag::ScalarRef Dag::scan(ReduceOp op, ScalarRef x) {
  return add({.kind = InstrKind::Scan, .dtype = x.dtype, .reduce = op, .in = of(x)});
}

void Dag::store(const DagBuffer& buffer, Expr offset, ScalarRef x, ScalarRef mask) {
  write(InstrKind::Store, buffer, offset, x, mask);
}

void Dag::write(InstrKind kind, const DagBuffer& buffer, Expr offset, ScalarRef x, ScalarRef mask) {
  const int number = number_of(buffer);
  x = cast(buffer.dtype, x);
  buffers_[static_cast<size_t>(number)].written = true;
  stores_.push_back(static_cast<Ref>(instrs_.size()));
  instrs_.push_back({.kind = kind, .dtype = buffer.dtype, .in = of(x, mask), .buffer = number, .index = offset});
}

void Dag::rewrite_indices(const std::function<Expr(Expr)>& fn) {
  for (Instr& i : instrs_) {
    if (has_index(i.kind)) i.index = fn(i.index);
  }
  numbering_.clear();
  for (Ref r = 0; r < instrs_.size(); ++r) {
    if (!writes(instrs_[r].kind)) numbering_.emplace(hash_of(instrs_[r]), r);
  }
}

Ref Dag::append(Instr instr) {
  const Ref r = static_cast<Ref>(instrs_.size());
  if (instr.kind == InstrKind::Indirect) binders_[instr.index] = r;
  if (writes(instr.kind)) {
    stores_.push_back(r);
  } else {
    numbering_.emplace(hash_of(instr), r);
  }
  instrs_.push_back(std::move(instr));
  return r;
}

std::vector<Expr> Dag::sizes() const {
  std::vector<Expr> out;
  auto look_into = [&](Expr e) {
    if (e.is_constant()) return;
    for (Expr s : symbols_of(e)) {
      const bool size = s.node()->symbol_kind == SymbolKind::Size;
      if (size && std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    }
  };
  for (const Range& r : ranges_) look_into(r.extent);
  for (const DagBuffer& b : buffers_) look_into(b.extent);
  const Levels levels = levels_of(*this);
  for_each_index([&](Ref r, Expr e) {
    if (levels.live[r]) look_into(e);
  });
  return out;
}

Ref Dag::binder(Expr symbol) const {
  auto it = binders_.find(symbol);
  VESTA_CHECK(it != binders_.end(), "an indirect symbol has no instruction");
  return it->second;
}

void Dag::for_each_operand(Ref r, const std::function<void(Ref)>& fn) const {
  const Instr& i = instrs_[r];
  for (Ref o : i.in) {
    if (o != kNoRef) fn(o);
  }
  if (binders_.empty() || i.index.is_constant() || i.kind == InstrKind::Indirect) return;
  for (Expr s : symbols_of(i.index)) {
    if (s.node()->symbol_kind == SymbolKind::Indirect) fn(binder(s));
  }
}

}  // namespace vesta::loops
