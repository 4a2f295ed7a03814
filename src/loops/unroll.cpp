// A short loop written out: what chooses between pieces by its variable (a stack of two, the parts of a complex number)
// becomes straight-line code without a choice.
#include "base/check.h"
#include "loops/dag.h"

namespace vesta::loops {

namespace {

// One pass of the loop, emitted into another Dag, which folds what the variable decided.
class Pass {
 public:
  Pass(const Dag& from, Dag& to, Expr var, Expr value) : from_(from), to_(to), var_(var), value_(value) {}

  void store(Ref r) {
    const Instr& i = from_.instrs()[r];
    const Dag::ScalarRef mask = i.in[1] == kNoRef ? Dag::ScalarRef{} : copy(i.in[1]);
    if (const auto known = constant(mask)) {
      if (*known) to_.store(buffer_of(i), index(i.index), copy(i.in[0]));
      return;
    }
    to_.store(buffer_of(i), index(i.index), copy(i.in[0]), mask);
  }

 private:
  using ScalarRef = Dag::ScalarRef;

  const DagBuffer& buffer_of(const Instr& i) const { return from_.buffers()[static_cast<size_t>(i.buffer)]; }

  Expr index(Expr e) {
    if (e.is_constant()) return e;
    return substitute(e, [&](Expr s) {
      if (s == var_) return value_;
      if (s.node()->symbol_kind != SymbolKind::Indirect) return s;
      const Instr& binder = from_.instrs()[from_.binder(s)];
      return to_.as_index(copy(binder.in[0]), binder.in[1] == kNoRef ? ScalarRef{} : copy(binder.in[1]));
    });
  }

  std::optional<bool> constant(ScalarRef r) const {
    if (r.id == kNoRef || to_.instrs()[r.id].kind != InstrKind::Constant) return std::nullopt;
    return to_.instrs()[r.id].imm != 0;
  }

  ScalarRef copy(Ref r) {
    auto it = known_.find(r);
    if (it != known_.end()) return it->second;
    const ScalarRef made = make(from_.instrs()[r]);
    known_.emplace(r, made);
    return made;
  }

  ScalarRef make(const Instr& i) {
    switch (i.kind) {
      case InstrKind::Constant: return is_float(i.dtype) ? to_.constant(i.dtype, i.fimm) : to_.integer(i.dtype, i.imm);
      case InstrKind::Index: return to_.size(i.dtype, index(i.index));
      case InstrKind::Load: {
        const ScalarRef mask = i.in[0] == kNoRef ? ScalarRef{} : copy(i.in[0]);
        const auto known = constant(mask);
        if (known && !*known) return to_.cast(i.dtype, to_.integer(DType::Bool, 0));
        return to_.load(buffer_of(i), index(i.index), known ? ScalarRef{} : mask);
      }
      case InstrKind::Compute: {
        if (i.prim == Prim::Select) {  // only what is chosen is worth emitting
          const ScalarRef condition = copy(i.in[0]);
          if (const auto known = constant(condition)) return copy(i.in[*known ? 1 : 2]);
        }
        std::vector<ScalarRef> operands;
        for (Ref o : i.in) {
          if (o != kNoRef) operands.push_back(copy(o));
        }
        return to_.emit(i.prim, operands);
      }
      case InstrKind::Cast: return to_.cast(i.dtype, copy(i.in[0]));
      case InstrKind::Bitcast: return to_.bitcast(i.dtype, copy(i.in[0]));
      default: VESTA_CHECK(false, "an instruction that cannot be unrolled");
    }
  }

  const Dag& from_;
  Dag& to_;
  Expr var_, value_;
  std::unordered_map<Ref, ScalarRef> known_;
};

}  // namespace

bool Dag::chooses_by(Expr var) const {
  bool chooses = false;
  for (const Instr& i : instrs_) {
    if (i.kind == InstrKind::Accumulate || i.kind == InstrKind::Scan || i.kind == InstrKind::StoreAdd) return false;
    chooses |= i.kind == InstrKind::Index && i.dtype == DType::I64 && contains(i.index, var);
  }
  for (Ref r : stores_) {
    if (!contains(instrs_[r].index, var)) return false;
  }
  return chooses;
}

void Dag::unroll(size_t range) {
  const Range loop = ranges_[range];
  Dag out(variables_);
  out.next_variable_ = next_variable_;
  out.in_order_ = in_order_;
  out.ranges_ = std::move(ranges_);
  out.ranges_.erase(out.ranges_.begin() + static_cast<int64_t>(range));
  for (int64_t k = 0; k < loop.extent.constant(); ++k) {
    Pass pass(*this, out, loop.var, k);
    for (Ref r : stores_) pass.store(r);
  }
  *this = std::move(out);
}

}  // namespace vesta::loops
