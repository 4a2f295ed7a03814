#include "loops/online.h"

#include <algorithm>
#include <limits>

namespace vesta::loops {
namespace {

bool in(const Stage& s, Ref r) { return std::find(s.body.begin(), s.body.end(), r) != s.body.end(); }

// Whether two instructions have the same value at the same inner element.
bool equal(const Kernel& k, Ref a, Ref b) {
  if (a == b) return true;
  const Instr &x = k.instrs[a], &y = k.instrs[b];
  const bool pure = x.kind == InstrKind::Constant || x.kind == InstrKind::Index || x.kind == InstrKind::Compute ||
                    x.kind == InstrKind::Cast || x.kind == InstrKind::Bitcast ||
                    (x.kind == InstrKind::Load && !k.buffers[static_cast<size_t>(x.buffer)].written);
  if (!pure || x.kind != y.kind || x.dtype != y.dtype || x.imm != y.imm || x.buffer != y.buffer || x.index != y.index)
    return false;
  if (x.kind == InstrKind::Compute && x.prim != y.prim) return false;
  if (x.kind == InstrKind::Constant && std::bit_cast<uint64_t>(x.fimm) != std::bit_cast<uint64_t>(y.fimm)) return false;
  for (size_t i = 0; i < x.in.size(); ++i) {
    if ((x.in[i] == kNoRef) != (y.in[i] == kNoRef)) return false;
    if (x.in[i] != kNoRef && !equal(k, x.in[i], y.in[i])) return false;
  }
  return true;
}

// The maximum whose Result is r; with `finite`, r is select(abs(maximum) == infinity, 0, maximum).
Ref maximum_in(const Kernel& k, Ref r, bool* finite) {
  const auto is = [&](Ref r, Prim p) { return k.instrs[r].kind == InstrKind::Compute && k.instrs[r].prim == p; };
  const auto is_constant = [&](Ref r, double v) {
    return k.instrs[r].kind == InstrKind::Constant && k.instrs[r].fimm == v;
  };
  *finite = is(r, Prim::Select);
  if (*finite) {
    const auto [condition, zero, max] = k.instrs[r].in;
    if (!is(condition, Prim::Eq) || !is_constant(zero, 0)) return kNoRef;
    const Ref size = k.instrs[condition].in[0], bound = k.instrs[condition].in[1];
    if (!is(size, Prim::Abs) || k.instrs[size].in[0] != max) return kNoRef;
    if (!is_constant(bound, std::numeric_limits<double>::infinity())) return kNoRef;
    r = max;
  }
  const Instr& result = k.instrs[r];
  return result.kind == InstrKind::Result && result.imm == 0 ? result.in[0] : kNoRef;
}

// The maximum that the terms of the sum are relative to. `max` is kNoRef if they do not have that form.
Online relative_to(const Kernel& k, Ref r) {
  Online out{kNoRef, r};
  const Instr& sum = k.instrs[r];
  if (sum.reduce != ReduceOp::Sum || (sum.dtype != DType::F32 && sum.dtype != DType::F64)) return out;
  const Instr& e = k.instrs[sum.in[0]];
  if (e.kind != InstrKind::Compute || e.prim != Prim::Exp) return out;
  const Instr& difference = k.instrs[e.in[0]];
  if (difference.kind != InstrKind::Compute || difference.prim != Prim::Sub) return out;
  const Ref found = maximum_in(k, difference.in[1], &out.finite);
  if (found == kNoRef) return out;
  const Instr& max = k.instrs[found];
  if (max.kind == InstrKind::Accumulate && max.reduce == ReduceOp::Max && max.dtype == sum.dtype &&
      equal(k, max.in[0], difference.in[0]))
    out.max = found;
  return out;
}

}  // namespace

std::vector<Online> online_sums(const Kernel& k) {
  std::vector<Online> out;
  for (const Stage& s : k.stages) {
    if (!s.loop) continue;
    std::vector<Online> here;
    const bool only_sums = std::all_of(s.body.begin(), s.body.end(), [&](Ref r) {
      const Instr& i = k.instrs[r];
      if (i.kind != InstrKind::Accumulate)
        return i.kind != InstrKind::Store && i.kind != InstrKind::StoreAdd && i.kind != InstrKind::RowStore &&
               i.kind != InstrKind::RowLoad && i.kind != InstrKind::Indirect;
      const Online sum = relative_to(k, r);
      if (sum.max == kNoRef || in(s, sum.max)) return false;
      const auto same = [&](const Online& o) { return o.max == sum.max; };
      if (std::any_of(out.begin(), out.end(), same) || std::any_of(here.begin(), here.end(), same)) return false;
      here.push_back(sum);
      return true;
    });
    if (only_sums) out.insert(out.end(), here.begin(), here.end());
  }
  return out;
}

}  // namespace vesta::loops
