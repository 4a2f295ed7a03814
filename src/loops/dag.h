// A fused computation before a device's schedule: loop ranges, buffers, and hash-consed scalar instructions, one per
// distinct value, in dependency order. The lowering (lower.h) fills a Dag; the schedule rewrites its ranges and indices
// (it splits and merges loop variables) and orders it into a Kernel.
//
// Contract
// - Every store runs for each point of the ranges that its index and its value depend on. A reduction is one Accumulate
//   over all Inner ranges and one Result; the schedule decides which loop computes it, and when.
// - A load sees what memory held before the first store, unless the dag runs in order.
// - An addition (StoreAdd) runs for each point of all ranges, in any order. No other instruction touches its buffer.
// - An access asserts that its index lies in [0, extent of the buffer), unless its mask switches it off.
// - A Dag knows no device: nothing in it may depend on lanes, threads or caches.
#pragma once

#include <unordered_map>

#include "graph/op.h"
#include "loops/kernel.h"

namespace vesta::loops {

// A buffer outside of the computation.
struct DagBuffer {
  int id = -1;               // identifies the memory: the filler of the Dag gives each buffer one id
  DType dtype = DType::F32;  // of its elements; a real type
  Expr extent = 0;           // elements: every access lies in [0, extent)
  int64_t alignment = 1;     // element 0 must lie at a multiple of this many bytes
  DeviceType device = DeviceType::CPU;
  bool written = false;
  bool constant = false;  // nothing writes it while the program runs
  // Elements are read and written again along the inner ranges, so these iterations must run one after the other.
  bool in_order = false;
};

// The loop variables that the Dags of one graph share. Variable k of a given extent is the same in all Dags, so that
// equal expressions are made once.
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

  // An element as the buffer holds it. Where `mask` is false (id kNoRef: there is no mask), it is 0 and memory is not
  // read.
  ScalarRef load(const DagBuffer& buffer, Expr offset, ScalarRef mask = {});
  // An index expression for the integer x: the expression itself where x is one, otherwise an indirect symbol. With an
  // assertion (a Bool) it is always an indirect symbol, and a run fails where the assertion is false.
  Expr as_index(ScalarRef x, ScalarRef assertion = {});
  // The expression of x if loop variables and sizes alone decide it.
  std::optional<Expr> affine(ScalarRef x) const;
  ScalarRef logical_and(ScalarRef a, ScalarRef b);  // either may be absent
  // Reduces x over all Inner ranges. `part` 1 gives the position of ArgMax/ArgMin.
  ScalarRef reduce(ReduceOp op, ScalarRef x, ScalarRef position, int part);
  ScalarRef scan(ReduceOp op, ScalarRef x);
  void store(const DagBuffer& buffer, Expr offset, ScalarRef x, ScalarRef mask = {});
  // Adds x to the element, atomically.
  void store_add(const DagBuffer& buffer, Expr offset, ScalarRef x) {
    write(InstrKind::StoreAdd, buffer, offset, x, {});
  }
  // Appends without folding, for a reader of texts.
  void append(DagBuffer buffer) { buffers_.push_back(std::move(buffer)); }
  Ref append(Instr instr);
  void access_in_order(const DagBuffer& buffer) { buffers_[static_cast<size_t>(number_of(buffer))].in_order = true; }
  bool in_order() const;  // any of its buffers

  const std::shared_ptr<ExprContext>& context() const { return variables_->context(); }
  // The order of the ranges has no meaning until a schedule gives them one.
  const std::vector<Range>& ranges() const { return ranges_; }
  std::vector<Range>& ranges() { return ranges_; }
  // A loop variable that no range of this Dag has used.
  Expr new_variable(Expr extent) { return variables_->get(next_variable_++, extent); }
  const std::vector<DagBuffer>& buffers() const { return buffers_; }
  // The size symbols that the Dag depends on, in order of first use.
  std::vector<Expr> sizes() const;
  const std::vector<Instr>& instrs() const { return instrs_; }
  const std::vector<Ref>& stores() const { return stores_; }
  // Replaces every index expression e by fn(e).
  void rewrite_indices(const std::function<Expr(Expr)>& fn);
  // Whether the loop over `var` is worth unrolling where it is short: values, not only indices, depend on `var`, and
  // every store writes its own element for each of its values. False for dags that unroll() cannot handle (reductions,
  // scans).
  bool chooses_by(Expr var) const;
  // Unrolls the loop of this range, whose extent is a constant.
  void unroll(size_t range);
  // Replaces a sum over an Inner loop in which one term, selected by its index, is not zero, by that term
  // (one_hot_gather.cpp).
  void load_one_hot_terms();
  // Calls fn for every index expression and its instruction `ref`.
  template <class F>
  void for_each_index(F&& fn) const {
    for (Ref r = 0; r < instrs_.size(); ++r) {
      if (has_index(instrs_[r].kind)) fn(r, instrs_[r].index);
    }
  }
  // The Indirect instruction that binds `symbol`.
  Ref binder(Expr symbol) const;
  // Calls fn for the instructions that must run before r: its operands and the binders of indirect symbols in its
  // index.
  void for_each_operand(Ref r, const std::function<void(Ref)>& fn) const;

 private:
  // Lower numbers are the variables of the ranges that the Dag is made with.
  static constexpr size_t kFirstNewVariable = 16;

  ScalarRef add(Instr instr);
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
};

// The canonical text, without what no store needs.
std::string print(const Dag& dag);

}  // namespace vesta::loops
