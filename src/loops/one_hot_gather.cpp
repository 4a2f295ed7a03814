// Replaces a sum over a loop in which all terms but one are zero, selected by their index, by that term: the loss of a
// class, for example.
#include "loops/dag_copy.h"
#include "loops/levels.h"

namespace vesta::loops {

namespace {

using ScalarRef = Dag::ScalarRef;

bool is_zero(const Instr& i) { return i.kind == InstrKind::Constant && (is_float(i.dtype) ? i.fimm == 0 : i.imm == 0); }

// Copies everything and replaces such sums.
class TermLoader final : public DagCopy {
 public:
  TermLoader(const Dag& from, Dag& to, const Range& loop) : DagCopy(from, to), loop_(loop), levels_(levels_of(from)) {}

  struct Term {
    Ref value = kNoRef, place = kNoRef;
  };
  // The term of a sum over select(index == loop variable, value, 0).
  std::optional<Term> term(const Instr& sum) const {
    if (sum.kind != InstrKind::Accumulate || sum.reduce != ReduceOp::Sum || sum.in[1] != kNoRef) return std::nullopt;
    const Instr& select = from_.instrs()[sum.in[0]];
    if (select.kind != InstrKind::Compute || select.prim != Prim::Select || !is_zero(from_.instrs()[select.in[2]]))
      return std::nullopt;
    const Instr& equal = from_.instrs()[select.in[0]];
    if (equal.kind != InstrKind::Compute || equal.prim != Prim::Eq) return std::nullopt;
    for (const int side : {0, 1}) {
      const Ref variable = equal.in[side], place = equal.in[1 - side];
      const Instr& v = from_.instrs()[variable];
      if (v.kind == InstrKind::Index && v.dtype == DType::I64 && v.index == loop_.var && !levels_.inner[place])
        return Term{select.in[1], place};
    }
    return std::nullopt;
  }

 private:
  // The value of the term at its index. The outer loader copies once what does not depend on the loop.
  class Value final : public DagCopy {
   public:
    Value(TermLoader& loader, Expr place)
        : DagCopy(loader.from_, loader.to_, loader.loop_.var, place), loader_(loader) {}

   private:
    ScalarRef reduction(Ref r) override { return loader_.copy(r); }
    TermLoader& loader_;
  };

  ScalarRef reduction(Ref r) override {
    const Instr& result = from_.instrs()[r];
    const Instr& sum = from_.instrs()[result.in[0]];
    const std::optional<Term> found = term(sum);
    if (!found) {
      const ScalarRef position = sum.in[1] == kNoRef ? ScalarRef{} : copy(sum.in[1]);
      return to_.reduce(sum.reduce, copy(sum.in[0]), position, static_cast<int>(result.imm));
    }
    const ScalarRef place = copy(found->place);
    const ScalarRef inside = to_.logical_and(to_.bin(Prim::Ge, place, to_.integer(DType::I64, 0)),
                                             to_.bin(Prim::Lt, place, to_.size(DType::I64, loop_.extent)));
    Value value(*this, to_.as_index(place));
    value.mask_loads(inside);
    const ScalarRef zero = to_.cast(sum.dtype, to_.integer(DType::Bool, 0));
    const ScalarRef operands[] = {inside, value.copy(found->value), zero};
    return to_.emit(Prim::Select, operands);
  }

  const Range loop_;
  const Levels levels_;
};

}  // namespace

void Dag::load_one_hot_terms() {
  const Range* loop = nullptr;
  for (const Range& r : ranges_) {
    if (r.kind != RangeKind::Inner) continue;
    if (loop) return;
    loop = &r;
  }
  if (!loop || in_order()) return;
  Dag out(variables_);
  TermLoader loader(*this, out, *loop);
  bool found = false;
  for (const Instr& i : instrs_) {
    if (i.kind == InstrKind::Scan || i.kind == InstrKind::StoreAdd) return;
    found |= loader.term(i).has_value();
  }
  if (!found) return;
  out.next_variable_ = next_variable_;
  out.ranges_ = ranges_;
  for (Ref r : stores_) loader.store(r);
  if (levels_of(out).roots.empty())  // nothing else needs the loop
    std::erase_if(out.ranges_, [](const Range& r) { return r.kind == RangeKind::Inner; });
  *this = std::move(out);
}

}  // namespace vesta::loops
