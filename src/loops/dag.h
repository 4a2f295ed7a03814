// A fused computation before it has stages: hash-consed scalar instructions, one per distinct value, in dependency
// order. The lowering (lower.h) fills it, the schedule may rewrite its indices (split and merge loop variables), and
// stage.h orders it into a Kernel. A reduction here is one Accumulate with one Result; stages come later.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "graph/op.h"
#include "loops/kernel.h"

namespace vesta::loops {

class Dag final : public graph::ScalarBuilder {
 public:
  using ScalarRef = graph::ScalarRef;
  explicit Dag(std::shared_ptr<ExprContext> context) : context_(std::move(context)) {}

  ScalarRef constant(DType t, double v) override;
  ScalarRef integer(DType t, int64_t v) override;
  ScalarRef size(DType t, Expr e) override;
  ScalarRef emit(Prim p, std::span<const ScalarRef> operands) override;
  ScalarRef cast(DType to, ScalarRef x) override;
  ScalarRef bitcast(DType to, ScalarRef x) override;

  // An element as the buffer holds it; `mask` (id kNoRef: none) false yields 0 unread.
  ScalarRef load(int buffer, DType dtype, Expr offset, ScalarRef mask = {});
  // An index expression for the integer x: the expression itself where x is one, otherwise an indirect symbol.
  Expr as_index(ScalarRef x);
  // The expression of x when it is computed from loop variables and sizes alone.
  std::optional<Expr> affine(ScalarRef x) const;
  ScalarRef logical_and(ScalarRef a, ScalarRef b);  // either may be absent
  // Reduces x over all Inner ranges. `part` 1 gives the position of ArgMax/ArgMin.
  ScalarRef reduce(ReduceOp op, ScalarRef x, ScalarRef position, int part);
  ScalarRef scan(ReduceOp op, ScalarRef x);
  void store(int buffer, DType dtype, Expr offset, ScalarRef x, ScalarRef mask = {});
  // Elements are read and written again along the inner ranges: those go one after the other.
  void run_in_order() { in_order_ = true; }
  bool in_order() const { return in_order_; }

  const std::shared_ptr<ExprContext>& context() const { return context_; }
  const std::vector<Instr>& instrs() const { return instrs_; }
  const std::vector<Ref>& stores() const { return stores_; }
  // Replaces every index expression e by fn(e).
  void rewrite_indices(const std::function<Expr(Expr)>& fn);
  // Whether values depend on what `var` is, not only places, and every store is at a place of its own for each: worth
  // unrolling where the loop is short. False for what unroll() cannot do (reductions, scans).
  bool chooses_by(Expr var) const;
  // Writes the loop over var in [0, extent) out.
  void unroll(Expr var, int64_t extent);
  // Calls fn for every index expression; `ref` is its instruction.
  template <class F>
  void for_each_index(F&& fn) const {
    for (Ref r = 0; r < instrs_.size(); ++r) {
      InstrKind k = instrs_[r].kind;
      if (k == InstrKind::Index || k == InstrKind::Load || k == InstrKind::Store) fn(r, instrs_[r].index);
    }
  }
  // The Indirect instruction that binds `symbol`.
  Ref binder(Expr symbol) const;
  // Instructions that must run before r: its operands and the binders of indirect symbols in its index.
  void for_each_operand(Ref r, const std::function<void(Ref)>& fn) const;

 private:
  ScalarRef add(Instr instr, DType value_type);
  std::shared_ptr<ExprContext> context_;
  std::vector<Instr> instrs_;
  std::vector<Ref> stores_;
  std::unordered_multimap<size_t, Ref> numbering_;
  std::unordered_map<Expr, Ref> binders_;
  bool in_order_ = false;
};

}  // namespace vesta::loops
