#include "codegen/cuda/elements.h"

#include <algorithm>

#include "codegen/cuda/arithmetic.h"

namespace vesta::codegen {

using loops::Instr;
using loops::InstrKind;
using loops::kNoRef;
using loops::Range;
using loops::RangeKind;
using loops::Ref;

namespace {
constexpr int64_t kLeastCopy = 4, kMostCopy = 16;  // bytes that one instruction copies to shared memory
}  // namespace

void ElementLines::decode(const std::string& position, RangeKind kind) {
  std::vector<size_t> ranges;
  for (size_t i = 0; i < k_.ranges.size(); ++i)
    if (k_.ranges[i].kind == kind) ranges.push_back(i);
  decode(position, ranges);
}
void ElementLines::decode(const std::string& position, const std::vector<size_t>& ranges) {
  std::string rest = position;
  for (size_t n = ranges.size(); n-- > 0;) {
    const Range& r = k_.ranges[ranges[n]];
    const std::string var = fmt::format("v{}", ranges[n]);
    names_[r.var] = var;
    if (n == 0) {
      line("const {} {} = {};", index_, var, rest);
      break;
    }
    const std::string extent = text(r.extent);
    line("const {} {} = {} % {};", index_, var, rest, extent);
    line("const {} {}_rest = {} / {};", index_, var, rest, extent);
    rest = var + "_rest";
  }
}

std::string ElementLines::pack_at(const Instr& i) const {
  return fmt::format("*(const Pack<{}, {}>*)(b{} + {})", stored_type(i.dtype), t_.each, i.buffer, text(i.index));
}
bool ElementLines::is_aligned(const Instr& i, const Range& range) const {
  const int64_t bytes = std::min<int64_t>(16, t_.each * element_size(i.dtype));
  if (k_.buffers[static_cast<size_t>(i.buffer)].alignment < bytes) return false;
  const auto step = coefficient_of(i.index, range.var);
  return step && step->is_constant(1) && provably_divisible(i.index - range.var, t_.each);
}
const Range* ElementLines::taken_together(const loops::Stage& s) const {
  if (column_) return column_;
  const Range& last = k_.ranges.back();
  return t_.each > 1 && s.loop == (last.kind == RangeKind::Inner) ? &last : nullptr;
}

bool ElementLines::is_packed(const Instr& i, const Range& range, const loops::Stage& s) const {
  if (i.kind == InstrKind::RowStore || i.kind == InstrKind::RowLoad) return t_.shared;
  const auto before = [&](Ref mask) {
    return k_.instrs[mask].kind == InstrKind::Constant ||
           (!by_column_[mask] && std::find(s.body.begin(), s.body.end(), mask) == s.body.end());
  };
  const bool load = i.kind == InstrKind::Load && (i.in[0] == kNoRef || before(i.in[0]));
  const bool store = i.kind == InstrKind::Store && i.in[1] == kNoRef;
  const bool add = i.kind == InstrKind::StoreAdd && i.in[1] == kNoRef && i.dtype == DType::F32;
  if (!load && !store && !add) return false;
  return is_aligned(i, range) && !names_varying_place(i.index);
}

bool ElementLines::names_varying_place(Expr index) const {
  if (index.is_constant()) return false;
  for (Expr s : symbols_of(index)) {
    if (s.node()->symbol_kind != SymbolKind::Indirect) continue;
    for (Ref r = 0; r < k_.instrs.size(); ++r)
      if (k_.instrs[r].kind == InstrKind::Indirect && k_.instrs[r].index == s && varies_[r]) return true;
  }
  return false;
}

void ElementLines::look_at_elements(const loops::Stage& s, const Range& range) {
  if (column_) {
    varies_ = by_column_;
    return;
  }
  varies_.assign(k_.instrs.size(), false);
  for (Ref r : s.body) {
    const Instr& i = k_.instrs[r];
    bool varies = i.kind == InstrKind::Accumulate || i.kind == InstrKind::Scan || i.kind == InstrKind::RowStore ||
                  i.kind == InstrKind::RowLoad || loops::writes(i.kind);
    for (Ref o : i.in) varies |= o != kNoRef && varies_[o];
    if (loops::has_index(i.kind)) varies |= contains(i.index, range.var) || names_varying_place(i.index);
    varies_[r] = varies;
  }
}

void ElementLines::copy_rows(const loops::Stage& s, const std::string& loop) {
  copied_.clear();
  const Range* const range = taken_together(s);
  if (!t_.shared || !range) return;
  look_at_elements(s, *range);
  for (Ref r : s.body) {
    const Instr& i = k_.instrs[r];
    if (i.kind != InstrKind::RowStore) continue;
    const Instr& from = k_.instrs[i.in[0]];
    const bool in_loop = std::find(s.body.begin(), s.body.end(), i.in[0]) != s.body.end();
    const int64_t bytes = t_.each * element_size(i.dtype);
    if (bytes < kLeastCopy || bytes > kMostCopy) continue;
    if (from.kind != InstrKind::Load || !in_loop || from.in[0] != kNoRef || from.dtype != i.dtype ||
        k_.buffers[static_cast<size_t>(from.buffer)].written || !is_packed(from, *range, s) ||
        names_place_of(s, from.index))
      continue;
    copied_.emplace(i.in[0], r);
  }
  if (copied_.empty()) return;
  line("#pragma unroll 4");
  line("{}", loop);
  decode("at", RangeKind::Inner);
  for (const auto& [load, store] : copied_) {
    const Instr& i = k_.instrs[load];
    line("copy_to_row<{}>(r{} + {}, b{} + {});", t_.each * element_size(i.dtype), k_.instrs[store].slot, kept_at(),
         i.buffer, text(i.index));
  }
  line("}}");
  line("copies_arrive();");
}
bool ElementLines::names_place_of(const loops::Stage& s, Expr index) const {
  return std::any_of(s.body.begin(), s.body.end(), [&](Ref r) {
    return k_.instrs[r].kind == InstrKind::Indirect && contains(index, k_.instrs[r].index);
  });
}
std::string ElementLines::copied_place(Ref load) const {
  const auto at = copied_.find(load);
  if (at == copied_.end()) return {};
  return fmt::format("r{} + {}", k_.instrs[at->second].slot, kept_at());
}
bool ElementLines::is_copied_row(Ref store) const {
  const auto at = copied_.find(k_.instrs[store].in[0]);
  return at != copied_.end() && at->second == store;
}

}  // namespace vesta::codegen
