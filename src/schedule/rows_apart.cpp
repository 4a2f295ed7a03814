#include "schedule/rows_apart.h"

#include <algorithm>

#include "loops/turns.h"

namespace vesta::schedule {

using loops::Instr;
using loops::InstrKind;
using loops::Range;
using loops::Ref;

namespace {

constexpr int64_t kLongRow = 6;  // vectors
constexpr int kMostLoads = 2;    // a row may load so many values of each column again

enum class Dependence : uint8_t { Nothing, OnColumn, OnRow };

}  // namespace

bool rows_are_apart(const loops::Dag& dag, const std::vector<Range>& ranges, size_t v, int64_t lanes) {
  const Expr column = ranges[v].var;
  const std::vector<Instr>& instrs = dag.instrs();
  if (!ranges[v].extent.is_constant()) return false;
  const int64_t extent = ranges[v].extent.constant(), vectors = extent / lanes;
  const loops::Turns turns = loops::turns_along(instrs, column, column, extent);
  if (turns.places.empty() ? vectors < kLongRow : !loops::divides_row(turns, vectors, instrs.size())) return false;
  const auto reads_row = [&](const Instr& i) {
    return std::ranges::any_of(ranges, [&](const Range& r) { return r.var != column && contains(i.index, r.var); });
  };
  int loads = 0;
  // Conditions, an index that is the column itself, and few loads of adjacent values.
  const auto is_cheap = [&](const Instr& i) {
    if (i.kind == InstrKind::Compute) return i.dtype == DType::Bool;
    if (!loops::has_index(i.kind) || !(i.index - column).is_constant()) return false;
    return i.kind == InstrKind::Index || (i.dtype == DType::F32 && ++loads <= kMostLoads);
  };
  std::vector<Dependence> on(instrs.size(), Dependence::Nothing);
  for (Ref r = 0; r < instrs.size(); ++r) {
    const Instr& i = instrs[r];
    for (const Ref in : i.in)
      if (in != loops::kNoRef) on[r] = std::max(on[r], on[in]);
    if (loops::has_index(i.kind) && reads_row(i)) on[r] = Dependence::OnRow;
    if (loops::has_index(i.kind) && contains(i.index, column)) on[r] = std::max(on[r], Dependence::OnColumn);
    if (on[r] == Dependence::OnColumn && !is_cheap(i)) return false;
  }
  return true;
}

}  // namespace vesta::schedule
