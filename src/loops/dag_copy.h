// Copies instructions of one Dag into another. The copy folds what has become constant.
#pragma once

#include "loops/dag.h"

namespace vesta::loops {

class DagCopy {
 public:
  using ScalarRef = Dag::ScalarRef;
  // Replaces `var`, a loop variable of `from`, by `value` in indices. Without a variable nothing is replaced.
  DagCopy(const Dag& from, Dag& to, Expr var = {}, Expr value = {}) : from_(from), to_(to), var_(var), value_(value) {}
  virtual ~DagCopy() = default;

  void store(Ref r);
  ScalarRef copy(Ref r);
  // Switches off every load where `mask` is false.
  void mask_loads(ScalarRef mask) { mask_ = mask; }

 protected:
  // Copies the reduction whose Result is r. Throws InternalError unless overridden: an unrolled loop has no reductions.
  virtual ScalarRef reduction(Ref r);
  const Dag& from_;
  Dag& to_;

 private:
  const DagBuffer& buffer_of(const Instr& i) const { return from_.buffers()[static_cast<size_t>(i.buffer)]; }
  Expr index(Expr e);
  std::optional<bool> constant(ScalarRef r) const;
  ScalarRef make(Ref r);

  const Expr var_, value_;
  ScalarRef mask_;
  std::unordered_map<Ref, ScalarRef> known_;
};

}  // namespace vesta::loops
