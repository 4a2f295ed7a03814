#include "loops/dag_copy.h"

#include "base/check.h"

namespace vesta::loops {

void DagCopy::store(Ref r) {
  const Instr& i = from_.instrs()[r];
  const ScalarRef mask = i.in[1] == kNoRef ? ScalarRef{} : copy(i.in[1]);
  if (const auto known = constant(mask)) {
    if (*known) to_.store(buffer_of(i), index(i.index), copy(i.in[0]));
    return;
  }
  to_.store(buffer_of(i), index(i.index), copy(i.in[0]), mask);
}

Expr DagCopy::index(Expr e) {
  if (e.is_constant()) return e;
  return substitute(e, [&](Expr s) {
    if (s == var_) return value_;
    if (s.node()->symbol_kind != SymbolKind::Indirect) return s;
    const Instr& binder = from_.instrs()[from_.binder(s)];
    return to_.as_index(copy(binder.in[0]), binder.in[1] == kNoRef ? ScalarRef{} : copy(binder.in[1]));
  });
}

std::optional<bool> DagCopy::constant(ScalarRef r) const {
  if (r.id == kNoRef || to_.instrs()[r.id].kind != InstrKind::Constant) return std::nullopt;
  return to_.instrs()[r.id].imm != 0;
}

DagCopy::ScalarRef DagCopy::copy(Ref r) {
  auto it = known_.find(r);
  if (it != known_.end()) return it->second;
  const ScalarRef made = make(r);
  known_.emplace(r, made);
  return made;
}

DagCopy::ScalarRef DagCopy::make(Ref r) {
  const Instr& i = from_.instrs()[r];
  switch (i.kind) {
    case InstrKind::Constant: return is_float(i.dtype) ? to_.constant(i.dtype, i.fimm) : to_.integer(i.dtype, i.imm);
    case InstrKind::Index: return to_.size(i.dtype, index(i.index));
    case InstrKind::Load: {
      const ScalarRef mask = to_.logical_and(i.in[0] == kNoRef ? ScalarRef{} : copy(i.in[0]), mask_);
      const auto known = constant(mask);
      if (known && !*known) return to_.cast(i.dtype, to_.integer(DType::Bool, 0));
      return to_.load(buffer_of(i), index(i.index), known ? ScalarRef{} : mask);
    }
    case InstrKind::Compute: {
      if (i.prim == Prim::Select) {  // only the selected operand is worth emitting
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
    case InstrKind::Result: return reduction(r);
    default: VESTA_CHECK(false, "an instruction that cannot be copied");
  }
}

DagCopy::ScalarRef DagCopy::reduction(Ref) { VESTA_CHECK(false, "a reduction cannot be written out"); }

}  // namespace vesta::loops
