// A fused computation before a device's schedule: loop ranges, buffers, and hash-consed scalar instructions, one per
// distinct value, in dependency order. The lowering (lower.h) fills it, the schedule may rewrite its ranges and indices
// (split and merge loop variables), and orders it into a Kernel.
//
// - Every store runs for each point of the ranges that its place and its value depend on. A reduction is one Accumulate
//   over all Inner ranges and one Result; which loop computes it, and when, is for the schedule to say.
// - A load finds what memory held before the first store, unless all runs in order.
// - An addition (StoreAdd) runs for each point of all ranges, in any order. Nothing else touches its buffer.
// - An access of a buffer asserts that its index lies in [0, extent of the buffer). One that its mask switches off
//   asserts nothing.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "graph/op.h"
#include "loops/kernel.h"

namespace vesta::loops {

// Memory outside the computation.
struct DagBuffer {
  int id = -1;               // which memory it is, for whoever fills the Dag: one buffer for each
  DType dtype = DType::F32;  // of its elements; real
  Expr extent = 0;           // elements: every access lies in [0, extent)
  int64_t alignment = 1;     // bytes: element 0 must lie at a multiple of it
  DeviceType device = DeviceType::CPU;
  bool written = false;
};

// The loop variables that the Dags of one graph share: the k-th one of a Dag, with this extent, is the same in all of
// them, so that equal expressions are made once.
class LoopVariables {
 public:
  explicit LoopVariables(std::shared_ptr<ExprContext> context) : context_(std::move(context)) {}
  Expr get(size_t k, Expr extent);
  const std::shared_ptr<ExprContext>& context() const { return context_; }

 private:
  std::shared_ptr<ExprContext> context_;
  std::vector<std::unordered_map<Expr, Expr>> known_;
};

class Dag final : public graph::ScalarBuilder {
 public:
  using ScalarRef = graph::ScalarRef;
  explicit Dag(std::shared_ptr<LoopVariables> variables) : variables_(std::move(variables)) {}
  explicit Dag(std::shared_ptr<ExprContext> context) : Dag(std::make_shared<LoopVariables>(std::move(context))) {}

  ScalarRef constant(DType t, double v) override;
  ScalarRef integer(DType t, int64_t v) override;
  ScalarRef size(DType t, Expr e) override;
  ScalarRef emit(Prim p, std::span<const ScalarRef> operands) override;
  ScalarRef cast(DType to, ScalarRef x) override;
  ScalarRef bitcast(DType to, ScalarRef x) override;

  // An element as the buffer holds it; `mask` (id kNoRef: none) false yields 0 unread.
  ScalarRef load(const DagBuffer& buffer, Expr offset, ScalarRef mask = {});
  // An index expression for the integer x: the expression itself where x is one, otherwise an indirect symbol. With an
  // assertion (a Bool), always an indirect symbol: whoever runs it fails where that is false.
  Expr as_index(ScalarRef x, ScalarRef assertion = {});
  // The expression of x when it is computed from loop variables and sizes alone.
  std::optional<Expr> affine(ScalarRef x) const;
  ScalarRef logical_and(ScalarRef a, ScalarRef b);  // either may be absent
  // Reduces x over all Inner ranges. `part` 1 gives the position of ArgMax/ArgMin.
  ScalarRef reduce(ReduceOp op, ScalarRef x, ScalarRef position, int part);
  ScalarRef scan(ReduceOp op, ScalarRef x);
  void store(const DagBuffer& buffer, Expr offset, ScalarRef x, ScalarRef mask = {});
  // What the buffer holds there plus x, atomically.
  void store_add(const DagBuffer& buffer, Expr offset, ScalarRef x) {
    write(InstrKind::StoreAdd, buffer, offset, x, {});
  }
  // Taken as they are, nothing folded: what a text says.
  void append(DagBuffer buffer) { buffers_.push_back(std::move(buffer)); }
  Ref append(Instr instr);
  // Elements are read and written again along the inner ranges: those go one after the other.
  void run_in_order() { in_order_ = true; }
  bool in_order() const { return in_order_; }

  const std::shared_ptr<ExprContext>& context() const { return variables_->context(); }
  // In no order that means anything, until a schedule gives them one.
  const std::vector<Range>& ranges() const { return ranges_; }
  std::vector<Range>& ranges() { return ranges_; }
  // A loop variable that no range of this Dag had.
  Expr new_variable(Expr extent) { return variables_->get(next_variable_++, extent); }
  const std::vector<DagBuffer>& buffers() const { return buffers_; }
  // The size symbols that it depends on, in order of first use.
  std::vector<Expr> sizes() const;
  const std::vector<Instr>& instrs() const { return instrs_; }
  const std::vector<Ref>& stores() const { return stores_; }
  // Replaces every index expression e by fn(e).
  void rewrite_indices(const std::function<Expr(Expr)>& fn);
  // Whether values depend on what `var` is, not only places, and every store is at a place of its own for each: worth
  // unrolling where the loop is short. False for what unroll() cannot do (reductions, scans).
  bool chooses_by(Expr var) const;
  // Writes the loop of this range out, whose extent is a constant.
  void unroll(size_t range);
  // Replaces sums over an Inner loop that have one term which is not zero, chosen by its place, by that term
  // (one_hot_gather.cpp).
  void load_one_hot_terms();
  // Calls fn for every index expression; `ref` is its instruction.
  template <class F>
  void for_each_index(F&& fn) const {
    for (Ref r = 0; r < instrs_.size(); ++r) {
      if (has_index(instrs_[r].kind)) fn(r, instrs_[r].index);
    }
  }
  // The Indirect instruction that binds `symbol`.
  Ref binder(Expr symbol) const;
  // Instructions that must run before r: its operands and the binders of indirect symbols in its index.
  void for_each_operand(Ref r, const std::function<void(Ref)>& fn) const;

 private:
  // Variables of lower numbers are those of the ranges that it is made with.
  static constexpr size_t kFirstNewVariable = 16;

  ScalarRef add(Instr instr, DType value_type);
  int number_of(const DagBuffer& buffer);
  void write(InstrKind kind, const DagBuffer& buffer, Expr offset, ScalarRef x, ScalarRef mask);
  std::shared_ptr<LoopVariables> variables_;
  size_t next_variable_ = kFirstNewVariable;
  std::vector<Range> ranges_;
  std::vector<DagBuffer> buffers_;
  std::vector<Instr> instrs_;
  std::vector<Ref> stores_;
  std::unordered_multimap<size_t, Ref> numbering_;
  std::unordered_map<Expr, Ref> binders_;
  bool in_order_ = false;
};

// As with kernels (kernel.h). The text leaves out what no store needs.
std::string print(const Dag& dag);
std::unique_ptr<Dag> parse_dag(std::string_view text);
void verify(const Dag& dag);

// Runs a Dag slowly in plain C++, without any schedule. `buffers`: one pointer for each of dag.buffers(); `sizes`:
// values of dag.sizes(). An access outside its buffer is an InternalError that names it, and is not done.
void interpret(const Dag& dag, std::span<void* const> buffers, std::span<const int64_t> sizes);

}  // namespace vesta::loops
