#include "loops/online.h"

#include <algorithm>

namespace vesta::loops {
namespace {

bool in(const Stage& s, Ref r) { return std::find(s.body.begin(), s.body.end(), r) != s.body.end(); }

// Whether two instructions have the same value for the same inner element.
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

// The maximum that the sum's terms are relative to; kNoRef: they are not of that form.
Ref maximum_of(const Kernel& k, const Instr& sum) {
  if (sum.reduce != ReduceOp::Sum || (sum.dtype != DType::F32 && sum.dtype != DType::F64)) return kNoRef;
  const Instr& e = k.instrs[sum.in[0]];
  if (e.kind != InstrKind::Compute || e.prim != Prim::Exp) return kNoRef;
  const Instr& difference = k.instrs[e.in[0]];
  if (difference.kind != InstrKind::Compute || difference.prim != Prim::Sub) return kNoRef;
  const Instr& result = k.instrs[difference.in[1]];
  if (result.kind != InstrKind::Result || result.imm != 0) return kNoRef;
  const Instr& max = k.instrs[result.in[0]];
  const bool fits = max.kind == InstrKind::Accumulate && max.reduce == ReduceOp::Max && max.dtype == sum.dtype &&
                    equal(k, max.in[0], difference.in[0]);
  return fits ? result.in[0] : kNoRef;
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
      const Ref max = maximum_of(k, i);
      if (max == kNoRef || in(s, max)) return false;
      const auto same = [&](const Online& o) { return o.max == max; };
      if (std::any_of(out.begin(), out.end(), same) || std::any_of(here.begin(), here.end(), same)) return false;
      here.push_back({max, r});
      return true;
    });
    if (only_sums) out.insert(out.end(), here.begin(), here.end());
  }
  return out;
}

}  // namespace vesta::loops
