#include "loops/levels.h"

#include <algorithm>

namespace vesta::loops {

Levels levels_of(const Dag& dag) {
  const std::vector<Instr>& in = dag.instrs();
  const size_t n = in.size();
  std::vector<Expr> vars;
  for (const Range& r : dag.ranges()) {
    if (r.kind == RangeKind::Inner) vars.push_back(r.var);
  }
  auto varies = [&](Expr e) { return std::any_of(vars.begin(), vars.end(), [&](Expr v) { return contains(e, v); }); };
  // Whether every pass of the inner loops reads or writes the element again, even if it is a single one.
  auto repeats = [&](const Instr& i) {
    return !vars.empty() && i.buffer >= 0 && dag.buffers()[static_cast<size_t>(i.buffer)].in_order;
  };

  Levels out;
  out.live.assign(n, false);
  out.inner.assign(n, false);
  out.level.assign(n, 0);
  for (Ref s : dag.stores()) out.live[s] = true;
  for (Ref r = static_cast<Ref>(n); r-- > 0;) {
    if (out.live[r]) dag.for_each_operand(r, [&](Ref o) { out.live[o] = true; });
  }
  for (Ref r = 0; r < n; ++r) {
    if (!out.live[r]) continue;
    InstrKind k = in[r].kind;
    bool inner = k == InstrKind::Accumulate || k == InstrKind::Scan || (k == InstrKind::StoreAdd && !vars.empty());
    if (has_index(k)) inner |= varies(in[r].index) || repeats(in[r]);
    int level = 0;
    dag.for_each_operand(r, [&](Ref o) {
      inner |= out.inner[o];
      level = std::max(level, out.level[o]);
    });
    if (k == InstrKind::Result) {
      inner = false;
      ++level;
    }
    out.inner[r] = inner;
    out.level[r] = level;
    out.last = std::max(out.last, level);
    if (inner && (k == InstrKind::Accumulate || writes(k))) out.roots.push_back(r);
  }
  return out;
}

}  // namespace vesta::loops
