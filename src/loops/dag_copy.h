// Copies instructions of one Dag into another, which folds what has become constant.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "loops/dag.h"

namespace vesta::loops {

class DagCopy {
 public:
  using ScalarRef = Dag::ScalarRef;
  // In indices, `value` takes the place of `var` (a loop variable of `from`; none: nothing is replaced).
  DagCopy(const Dag& from, Dag& to, Expr var = {}, Expr value = {}) : from_(from), to_(to), var_(var), value_(value) {}
  virtual ~DagCopy() = default;

  void store(Ref r);
  ScalarRef copy(Ref r);
  // And every load is switched off where `mask` is false.
  void mask_loads(ScalarRef mask) { mask_ = mask; }

 protected:
  // A reduction whose Result is r. Throws InternalError here: loops that are written out have none.
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
