// Unrolls a short loop: selections between pieces by its variable (a stack of two, the parts of a complex number)
// become straight-line code.
#include "loops/dag_copy.h"

namespace vesta::loops {

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
  out.ranges_ = std::move(ranges_);
  out.ranges_.erase(out.ranges_.begin() + static_cast<int64_t>(range));
  for (int64_t k = 0; k < loop.extent.constant(); ++k) {
    DagCopy pass(*this, out, loop.var, k);
    for (Ref r : stores_) pass.store(r);
  }
  *this = std::move(out);
}

}  // namespace vesta::loops
