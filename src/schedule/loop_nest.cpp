#include "schedule/loop_nest.h"

namespace vesta::schedule {

using loops::Instr;
using loops::InstrKind;
using loops::Range;
using loops::RangeKind;
using loops::Ref;

void LoopNest::drop_ones() {
  bool reduces = false;
  for (const Instr& i : dag_.instrs()) reduces |= i.kind == InstrKind::Accumulate || i.kind == InstrKind::Scan;
  std::vector<Range> kept, ones;
  bool has_inner = false;
  for (const Range& r : ranges_) {
    (r.extent.is_constant(1) ? ones : kept).push_back(r);
    has_inner |= r.kind == RangeKind::Inner && !r.extent.is_constant(1);
  }
  if (reduces && !has_inner) {
    auto it = std::find_if(ones.begin(), ones.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
    if (it != ones.end()) {
      kept.push_back(*it);
      ones.erase(it);
    } else {
      kept.push_back({dag_.new_variable(1), 1, RangeKind::Inner});
    }
  }
  if (kept.empty()) kept.push_back({dag_.new_variable(1), 1, RangeKind::Parallel});
  if (!ones.empty()) {
    dag_.rewrite_indices([&](Expr e) {
      if (e.is_constant()) return e;
      return substitute(e, [&](Expr s) {
        for (const Range& r : ones) {
          if (s == r.var) return Expr(0);
        }
        return s;
      });
    });
  }
  ranges_ = std::move(kept);
}

void LoopNest::read_accesses() {
  accesses_.clear();
  for (Ref r = 0; r < dag_.instrs().size(); ++r) {
    const Instr& i = dag_.instrs()[r];
    if (i.kind != InstrKind::Load && !loops::writes(i.kind)) continue;
    Access a;
    a.ref = r;
    a.store = loops::writes(i.kind);
    a.bytes = std::max<int64_t>(1, element_size(i.dtype));
    const std::vector<Expr> hidden = named_by(i.index);
    for (size_t d = 0; d < ranges_.size(); ++d) {
      auto c = coefficient_of(i.index, ranges_[d].var);
      if (std::find(hidden.begin(), hidden.end(), ranges_[d].var) != hidden.end()) c.reset();
      a.strides.push_back(c ? std::optional(hint(*c)) : std::nullopt);
      if (!a.strides.back() || *a.strides.back() != 0) a.trips *= static_cast<double>(extent(d));
    }
    accesses_.push_back(std::move(a));
  }
}

std::vector<Expr> LoopNest::named_by(Expr index) const {
  std::vector<Expr> vars;
  std::vector<Ref> work;
  auto look_into = [&](Expr e) {
    if (e.is_constant()) return;
    for (Expr s : symbols_of(e)) {
      if (s.node()->symbol_kind == SymbolKind::Indirect) work.push_back(dag_.binder(s));
    }
  };
  look_into(index);
  std::vector<Ref> seen;
  while (!work.empty()) {
    Ref r = work.back();
    work.pop_back();
    if (std::find(seen.begin(), seen.end(), r) != seen.end()) continue;
    seen.push_back(r);
    const Instr& i = dag_.instrs()[r];
    if (!i.index.is_constant() && i.kind != InstrKind::Indirect) {
      for (Expr s : symbols_of(i.index)) {
        if (s.node()->symbol_kind == SymbolKind::Loop) vars.push_back(s);
      }
    }
    dag_.for_each_operand(r, [&](Ref o) { work.push_back(o); });
  }
  return vars;
}

void LoopNest::order(double outweighs) {
  const Access* store = nullptr;
  const Access* any = nullptr;
  for (const Access& a : accesses_) {
    if (a.store && (!store || a.trips > store->trips)) store = &a;
    auto weight = [](const Access& x) { return x.trips * (x.store ? 1.5 : 1.0); };
    if (!any || weight(a) > weight(*any)) any = &a;
  }
  // Additions go to elements that an index tensor names, so they follow the order of what is added.
  if (store && dag_.instrs()[store->ref].kind == InstrKind::StoreAdd) {
    store = nullptr;
    for (const Access& a : accesses_)
      if (!a.store && (!store || a.trips > store->trips)) store = &a;
  }
  auto stride = [](const Access* a, size_t d) { return a && a->strides[d] ? std::abs(*a->strides[d]) : int64_t{0}; };
  std::vector<size_t> p, q;
  for (size_t d = 0; d < ranges_.size(); ++d) (inner(d) ? q : p).push_back(d);
  std::stable_sort(p.begin(), p.end(), [&](size_t x, size_t y) { return stride(store, x) > stride(store, y); });
  std::stable_sort(q.begin(), q.end(), [&](size_t x, size_t y) { return stride(any, x) > stride(any, y); });
  if (store && any->trips >= outweighs * store->trips)
    std::stable_partition(p.begin(), p.end(), [&](size_t d) { return stride(any, d) != 1; });
  std::vector<Range> sorted;
  for (size_t d : p) sorted.push_back(ranges_[d]);
  for (size_t d : q) sorted.push_back(ranges_[d]);
  ranges_ = std::move(sorted);
}

}  // namespace vesta::schedule
