#include "loops/ahead.h"

#include <algorithm>

namespace vesta::loops {
namespace {

constexpr int64_t kAlignment = 16;  // bytes, of what is fetched at once (PTX ISA, cp.async.bulk.prefetch)

bool touches_memory(const Kernel& k, Ref r) {
  switch (k.instrs[r].kind) {
    case InstrKind::Constant:
    case InstrKind::Index:
    case InstrKind::Compute:
    case InstrKind::Cast:
    case InstrKind::Bitcast: return false;
    default: return true;
  }
}

}  // namespace

size_t stages_without_memory(const Kernel& k) {
  const auto first = std::find_if(k.stages.begin(), k.stages.end(), [&](const Stage& s) {
    return s.loop || std::any_of(s.body.begin(), s.body.end(), [&](Ref r) { return touches_memory(k, r); });
  });
  return static_cast<size_t>(first - k.stages.begin());
}

std::vector<Ref> rows_to_fetch(const Kernel& k) {
  const auto inner =
      std::count_if(k.ranges.begin(), k.ranges.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
  if (inner != 1 || k.threads.block == 0 || k.threads.across) return {};
  const Expr var = k.ranges.back().var;
  std::vector<Ref> known = {kNoRef};
  for (size_t s = 0; s < stages_without_memory(k); ++s)
    known.insert(known.end(), k.stages[s].body.begin(), k.stages[s].body.end());
  const auto is_row = [&](const Instr& i) {
    if (i.kind != InstrKind::Load || std::find(known.begin(), known.end(), i.in[0]) == known.end()) return false;
    const KernelBuffer& b = k.buffers[static_cast<size_t>(i.buffer)];
    const auto step = coefficient_of(i.index, var);
    if (b.value || b.written || b.alignment < kAlignment || !step || !step->is_constant(1)) return false;
    const auto symbols = symbols_of(i.index);
    const bool found = std::any_of(symbols.begin(), symbols.end(),
                                   [](Expr s) { return s.node()->symbol_kind == SymbolKind::Indirect; });
    return !found && provably_divisible((i.index - var) * element_size(i.dtype), kAlignment);
  };
  std::vector<Ref> out;
  for (const Stage& s : k.stages)
    for (Ref r : s.body) {
      const Instr& i = k.instrs[r];
      const bool again = std::any_of(out.begin(), out.end(), [&](Ref o) {
        return k.instrs[o].buffer == i.buffer && k.instrs[o].index == i.index;
      });
      if (s.loop && !again && is_row(i)) out.push_back(r);
    }
  return out;
}

}  // namespace vesta::loops
