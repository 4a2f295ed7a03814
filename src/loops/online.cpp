#include "loops/online.h"

#include <algorithm>
#include <limits>

namespace vesta::loops {
namespace {

bool in(const Stage& s, Ref r) { return std::find(s.body.begin(), s.body.end(), r) != s.body.end(); }

// The value that a row keeps for the instruction, or itself.
Ref unkept(const Kernel& k, Ref r) {
  if (k.instrs[r].kind != InstrKind::RowLoad) return r;
  const auto from = std::find_if(k.instrs.begin(), k.instrs.end(), [&](const Instr& i) {
    return i.kind == InstrKind::RowStore && i.slot == k.instrs[r].slot;
  });
  return from == k.instrs.end() ? r : from->in[0];
}

// Whether two instructions have the same value at the same inner element.
bool equal(const Kernel& k, Ref a, Ref b) {
  a = unkept(k, a);
  b = unkept(k, b);
  if (a == b) return true;
  const Instr &x = k.instrs[a], &y = k.instrs[b];
  const bool pure = x.kind == InstrKind::Constant || x.kind == InstrKind::Index || x.kind == InstrKind::Compute ||
                    x.kind == InstrKind::Cast ||
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

bool is(const Kernel& k, Ref r, Prim p) { return k.instrs[r].kind == InstrKind::Compute && k.instrs[r].prim == p; }
bool is_constant(const Kernel& k, Ref r, double v) {
  return k.instrs[r].kind == InstrKind::Constant && k.instrs[r].fimm == v;
}

// The accumulator whose value r is; kNoRef: none.
Ref accumulator_of(const Kernel& k, Ref r) {
  const Instr& result = k.instrs[r];
  return result.kind == InstrKind::Result && result.imm == 0 ? result.in[0] : kNoRef;
}

// The maximum that is r; with `finite`, r is select(abs(maximum) == infinity, 0, maximum).
Ref maximum_in(const Kernel& k, Ref r, bool* finite) {
  *finite = is(k, r, Prim::Select);
  if (*finite) {
    const auto [condition, zero, max] = k.instrs[r].in;
    if (!is(k, condition, Prim::Eq) || !is_constant(k, zero, 0)) return kNoRef;
    const Ref size = k.instrs[condition].in[0], bound = k.instrs[condition].in[1];
    if (!is(k, size, Prim::Abs) || k.instrs[size].in[0] != max) return kNoRef;
    if (!is_constant(k, bound, std::numeric_limits<double>::infinity())) return kNoRef;
    r = max;
  }
  return accumulator_of(k, r);
}

// The sum of a row whose mean is r: sum / elements.
Ref sum_in(const Kernel& k, Ref r) {
  const Expr elements = row_elements(k);
  if (!is(k, r, Prim::Div) || !elements.is_constant()) return kNoRef;
  const bool is_mean = is_constant(k, k.instrs[r].in[1], static_cast<double>(elements.constant()));
  return is_mean ? accumulator_of(k, k.instrs[r].in[0]) : kNoRef;
}

// What the terms of the sum are relative to. `first` is kNoRef if they have no such form.
Online relative_to(const Kernel& k, Ref r) {
  Online out{kNoRef, r};
  const Instr& sum = k.instrs[r];
  if (sum.reduce != ReduceOp::Sum || (sum.dtype != DType::F32 && sum.dtype != DType::F64)) return out;
  const Instr& term = k.instrs[sum.in[0]];
  const bool is_square = is(k, sum.in[0], Prim::Mul) && term.in[0] == term.in[1];
  if (!is_square && !is(k, sum.in[0], Prim::Exp)) return out;
  if (!is(k, term.in[0], Prim::Sub)) return out;
  const Instr& difference = k.instrs[term.in[0]];
  bool finite = false;
  const Ref found = is_square ? sum_in(k, difference.in[1]) : maximum_in(k, difference.in[1], &finite);
  if (found == kNoRef) return out;
  const Instr& first = k.instrs[found];
  if (first.kind != InstrKind::Accumulate || first.reduce != (is_square ? ReduceOp::Sum : ReduceOp::Max) ||
      first.dtype != sum.dtype || !equal(k, first.in[0], difference.in[0]))
    return out;
  out.first = found;
  out.kind = is_square ? OnlineKind::Squares : finite ? OnlineKind::FiniteExp : OnlineKind::Exp;
  return out;
}

}  // namespace

bool is_relative_sum(const Kernel& k, Ref r) {
  const Ref sum = accumulator_of(k, r);
  if (sum == kNoRef) return false;
  const Online found = relative_to(k, sum);
  return found.first != kNoRef && found.kind == OnlineKind::Exp;
}

Ref relative_term(const Kernel& k, Ref r) {
  if (k.instrs[r].kind != InstrKind::Accumulate) return kNoRef;
  const Online sum = relative_to(k, r);
  if (sum.first == kNoRef || sum.kind == OnlineKind::Squares) return kNoRef;
  const Ref term = k.instrs[r].in[0];
  for (Ref other = 0; other < k.instrs.size(); ++other)
    for (const Ref o : k.instrs[other].in)
      if (o == term && other != r) return kNoRef;
  return term;
}

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
      if (sum.first == kNoRef || in(s, sum.first)) return false;
      const auto same = [&](const Online& o) { return o.first == sum.first; };
      if (std::any_of(out.begin(), out.end(), same) || std::any_of(here.begin(), here.end(), same)) return false;
      here.push_back(sum);
      return true;
    });
    if (only_sums) out.insert(out.end(), here.begin(), here.end());
  }
  return out;
}

}  // namespace vesta::loops
