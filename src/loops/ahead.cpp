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
  const size_t before = stages_without_memory(k);
  if (inner != 1 || k.threads.block == 0 || k.threads.across || before == k.stages.size() || !k.stages[before].loop)
    return {};
  const Expr var = k.ranges.back().var;
  const auto known = [&](Ref mask) {
    return mask == kNoRef ||
           std::any_of(k.stages.begin(), k.stages.begin() + static_cast<std::ptrdiff_t>(before),
                       [&](const Stage& s) { return std::find(s.body.begin(), s.body.end(), mask) != s.body.end(); });
  };
  std::vector<Ref> out;
  for (Ref r : k.stages[before].body) {
    const Instr& i = k.instrs[r];
    if (i.kind != InstrKind::Load || !known(i.in[0])) continue;
    const KernelBuffer& b = k.buffers[static_cast<size_t>(i.buffer)];
    const auto step = coefficient_of(i.index, var);
    if (b.value || b.written || b.alignment < kAlignment || !step || !step->is_constant(1)) continue;
    const auto symbols = symbols_of(i.index);
    const bool found = std::any_of(symbols.begin(), symbols.end(),
                                   [](Expr s) { return s.node()->symbol_kind == SymbolKind::Indirect; });
    if (!found && provably_divisible((i.index - var) * element_size(i.dtype), kAlignment)) out.push_back(r);
  }
  return out;
}

}  // namespace vesta::loops
