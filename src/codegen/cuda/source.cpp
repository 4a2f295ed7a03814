#include "codegen/cuda/source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "codegen/cuda/arithmetic.h"
#include "codegen/cuda/lines.h"
#include "codegen/cuda/scan.h"

namespace vesta::codegen {

using loops::Instr;
using loops::InstrKind;
using loops::Kernel;
using loops::kNoRef;
using loops::Range;
using loops::RangeKind;
using loops::Ref;

namespace {

constexpr size_t kUnrolled = 256;  // instructions of a loop that is unrolled
constexpr size_t kMostMasks = 4;   // masks of whole rows; each gets a loop of its own

class Writer : KernelLines {
 public:
  Writer(const Kernel& k, const std::string& symbol) : KernelLines(k), k_(k), t_(k.threads), symbol_(symbol) {}

  std::string run() {
    VESTA_CHECK(t_.block > 0, "a kernel without threads");
    find_columns();
    header();
    if (k_.tile.rows > 0) {
      tiled();
      out_ += "}\n";
      return std::move(out_);
    }
    place_of_thread();
    for (size_t i = 0; i < k_.row_slots.size(); ++i) {
      const DType t = k_.row_slots[i];
      if (t_.shared) {
        line("{0}* const r{1} = ({0}*)(shared_rows + {2});", stored_type(t), i,
             loops::shared_offset(k_, static_cast<int>(i)));
        continue;
      }
      const int64_t elements = t_.held * t_.each;
      // A register holds two halves.
      line("{} r{}[{}];", is_half(t) ? "u32" : value_type_name(t), i, is_half(t) ? (elements + 1) / 2 : elements);
    }
    for (const loops::Stage& s : k_.stages)
      if (!is_left_out(s)) stage(s);
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  // If a thread has several rows, finds the instructions whose values differ between them: they depend on the variable
  // of the rows' range.
  void find_columns() {
    by_column_.assign(k_.instrs.size(), false);
    if (!t_.across || t_.each == 1) return;
    const auto inner = [](const Range& r) { return r.kind == RangeKind::Inner; };
    column_ = &*std::prev(std::find_if(k_.ranges.begin(), k_.ranges.end(), inner));
    std::unordered_set<Expr> symbols = {column_->var};
    for (const loops::Stage& s : k_.stages)
      for (Ref r : s.body) {
        const Instr& i = k_.instrs[r];
        bool differs = false;
        if (loops::has_index(i.kind))
          for (Expr e : symbols_of(i.index)) differs |= symbols.contains(e);
        for (Ref o : i.in) differs |= o != kNoRef && by_column_[o];
        differs |= i.kind == InstrKind::StoreAdd;  // stores once per row
        by_column_[r] = differs;
        if (differs && i.kind == InstrKind::Indirect) symbols.insert(i.index);
      }
  }
  // How many elements of the loop a thread processes at once.
  int64_t along() const { return column_ ? 1 : t_.each; }

  void header() {
    // Without doubles, limits registers so that 1024 threads fit.
    const bool doubles = std::any_of(k_.instrs.begin(), k_.instrs.end(), [&](const Instr& i) {
      return i.dtype == DType::F64 && !(i.kind == InstrKind::Load && is_value(i));
    });
    const bool apart = std::all_of(k_.buffers.begin(), k_.buffers.end(), [](const auto& b) { return b.noalias; });
    out_ += fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) {}(", t_.block,
                        t_.block == 512 && !doubles ? ", 2" : "", symbol_);
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      const loops::KernelBuffer& buffer = k_.buffers[b];
      if (buffer.value) {
        out_ += fmt::format("const {} b{}, ", stored_type(buffer.dtype), b);
        continue;
      }
      // Loads may be moved across these stores, but not before the wait below. Loads of memory declared constant
      // (ld.global.nc) could be.
      out_ += fmt::format("{}{}* {}b{}, ", buffer.written ? "" : "const ", stored_type(buffer.dtype),
                          buffer.written && apart ? "__restrict__ " : "", b);
    }
    for (size_t s = 0; s < k_.sizes.size(); ++s) out_ += fmt::format("const i64 s{}, ", s);
    out_ += "const i64 items) {\n";
    line("wait_for_earlier_kernels();");
  }

  void place_of_thread() {
    const int64_t teams = t_.block / t_.team, items = loops::items_of_block(k_);
    std::string team = "(int)threadIdx.x", lane = "(int)threadIdx.x";
    if (t_.across) {
      team += fmt::format(" % {}", teams);
      lane += fmt::format(" / {}", teams);
    } else if (t_.team == t_.block) {
      team = "0";
    } else if (t_.team > 1) {
      team += fmt::format(" / {}", t_.team);
      lane += fmt::format(" % {}", t_.team);
    }
    if (items == 1) {  // each block has an item
      line("const int lane = {};", lane);
      line("const {} item = ({})blockIdx.x;", index_, index_);
      return decode("item", RangeKind::Parallel);
    }
    line("const i64 first = (i64)blockIdx.x * {} + {}{};", items, team,
         items > teams ? fmt::format(" * {}", items / teams) : "");
    if (t_.team == 1) {
      line("if (first >= items) return;");
      line("const {} item = ({})first;", index_, index_);
    } else {
      // Teams of the last block without an item execute the code, too, because the threads of a warp exchange values.
      line("const int lane = {};", lane);
      line("const bool live = first < items;");
      line("const {} item = ({})(live ? first : items - {});", index_, index_, column_ ? t_.each : 1);
    }
    decode("item", RangeKind::Parallel);
  }

  // Whether a team of the last block may have no item and still execute the code.
  bool may_lack_items() const { return t_.team > 1 && loops::items_of_block(k_) > 1; }

  // Computes the variables of all ranges of one kind from their joint position. The last range varies fastest.
  void decode(const std::string& position, RangeKind kind) {
    std::vector<size_t> ranges;
    for (size_t i = 0; i < k_.ranges.size(); ++i)
      if (k_.ranges[i].kind == kind) ranges.push_back(i);
    decode(position, ranges);
  }
  void decode(const std::string& position, const std::vector<size_t>& ranges) {
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

  // A block processes one tile: its threads load it along the rows into shared memory, then compute and store along the
  // columns.
  void tiled() {
    const loops::Tile& t = k_.tile;
    const size_t row = k_.ranges.size() - 2, column = row + 1;
    line("i64 tile = blockIdx.x;");
    const auto side = [&](size_t range, int64_t size) {
      line("const {0} first{1} = ({0})(tile % {2}) * {3};", index_, range, text(ceildiv(k_.ranges[range].extent, size)),
           size);
      line("tile /= {};", text(ceildiv(k_.ranges[range].extent, size)));
    };
    side(column, t.columns);
    side(row, t.rows);
    std::vector<size_t> outer(row);
    std::iota(outer.begin(), outer.end(), size_t{0});
    decode(fmt::format("({})tile", index_), outer);
    for (Ref r : t.loads) line("__shared__ {} q{}[{}];", stored_type(k_.instrs[r].dtype), r, t.columns * t.pitch);

    names_[k_.ranges[row].var] = fmt::format("v{}", row);
    names_[k_.ranges[column].var] = fmt::format("v{}", column);
    const auto elements = [&](size_t fast, size_t slow, int64_t size) {
      line("#pragma unroll");
      line("for (int k = 0; k < {}; ++k) {{", t.rows * t.columns / t_.block);
      line("const int at = (int)threadIdx.x + k * {};", t_.block);
      line("const {} v{} = first{} + at % {}, v{} = first{} + at / {};", index_, fast, fast, size, slow, slow, size);
      for (const size_t d : {row, column})
        if (const Expr n = k_.ranges[d].extent; !provably_divisible(n, d == row ? t.rows : t.columns))
          line("if (v{} >= {}) continue;", d, text(n));
    };
    elements(row, column, t.rows);
    for (Ref r : t.loads)
      line("q{}[at / {} * {} + at % {}] = b{}[{}];", r, t.rows, t.pitch, t.rows, k_.instrs[r].buffer,
           text(k_.instrs[r].index));
    line("}}");
    line("__syncthreads();");
    elements(column, row, t.columns);
    for (const loops::Stage& s : k_.stages)
      for (Ref r : s.body) instr(r, false);
    line("}}");
  }
  bool is_value(const Instr& access) const { return k_.buffers[static_cast<size_t>(access.buffer)].value; }
  bool is_tiled(Ref r) const { return std::find(k_.tile.loads.begin(), k_.tile.loads.end(), r) != k_.tile.loads.end(); }

  void stage(const loops::Stage& s) {
    for (Ref r : s.body)
      if (k_.instrs[r].kind == InstrKind::Accumulate) begin_accumulator(r);
    if (!s.loop) return body(s);
    prepare_divisors(s);
    // If loads are masked for whole rows (the pieces of a concatenation), each mask gets a loop in which only it is
    // true, and one more loop serves all other combinations.
    const std::vector<Ref> masks = row_masks(s);
    for (const Ref on : masks) {
      std::string when;
      for (const Ref m : masks) when += fmt::format("{}{}x{}", when.empty() ? "" : " && ", m == on ? "" : "!", m);
      line("{}if ({}) {{", on == masks[0] ? "" : "} else ", when);
      for (const Ref m : masks) known_[m] = m == on;
      rounds(s);
    }
    known_.clear();
    if (!masks.empty()) line("}} else {{");
    rounds(s);
    if (!masks.empty()) line("}}");
    const bool by_first = is_for_stores(s);
    for (Ref r : s.body)
      if (k_.instrs[r].kind == InstrKind::Accumulate) combine_over_team(r, by_first);
  }

  // The loop of a stage over the thread's elements.
  void rounds(const loops::Stage& s) {
    const Expr row = loops::row_elements(k_);
    const std::string lane = t_.team == 1 ? "0" : "lane";
    // Unrolls rows in registers, and rows that a few threads of a warp share in the same small number of rounds.
    const int64_t round = t_.team * along();
    const bool even = t_.team > 1 && t_.team < 32 && row.is_constant() && row.constant() % round == 0;
    if (has_scan(s)) {
      begin_rounds(s, row, lane);
    } else if (t_.held > 0 || (even && !t_.across && row.constant() <= 4 * round)) {
      const int64_t times = t_.held > 0 ? t_.held : row.constant() / round;
      line("#pragma unroll");
      line("for (int k = 0; k < {}; ++k) {{", times);
      line("const {} at = ({} + k * {}) * {};", index_, lane, t_.team, along());
      if (!row.is_constant(round * times)) line("if (at >= {}) break;", text(row));
    } else {
      // Unrolls far enough to keep the memory busy with loads.
      if (t_.team >= 32) line("#pragma unroll {}", std::clamp<size_t>(kUnrolled / instructions(s), 1, 4));
      line("for ({} at = {} * {}; at < {}; at += {}) {{", index_, lane, along(), text(row), t_.team * along());
    }
    decode("at", RangeKind::Inner);
    body(s);
    in_row_.clear();
    line("}}");
  }

  // Masks of loads that are the same for all elements of a row, if there are only a few.
  std::vector<Ref> row_masks(const loops::Stage& s) {
    std::vector<Ref> out;
    const Range* const range = taken_together(s);
    if (!range || has_scan(s)) return out;
    look_at_elements(s, *range);
    for (Ref r : s.body) {
      const Instr& i = k_.instrs[r];
      if (i.kind != InstrKind::Load || i.in[0] == kNoRef || k_.instrs[i.in[0]].kind == InstrKind::Constant) continue;
      if (is_packed(i, *range, s) && std::find(out.begin(), out.end(), i.in[0]) == out.end()) out.push_back(i.in[0]);
    }
    return out.size() > 1 && out.size() <= kMostMasks ? out : std::vector<Ref>();
  }

  // Instructions of one round of a loop. What a known mask decides costs nothing.
  size_t instructions(const loops::Stage& s) const {
    size_t n = 0;
    const auto is_free = [&](const Instr& i) {
      if (known_.empty()) return false;
      const auto mask = i.kind == InstrKind::Load && i.in[0] != kNoRef ? known_.find(i.in[0]) : known_.end();
      return (mask != known_.end() && !mask->second) || (i.kind == InstrKind::Compute && i.prim == Prim::Select);
    };
    for (Ref r : s.body)
      if (!is_free(k_.instrs[r])) n += column_ && !by_column_[r] ? 1 : static_cast<size_t>(t_.each);
    return n;
  }

  // Whether only the thread that stores needs this loop's results: no loop follows, and no check that every thread
  // makes.
  bool is_for_stores(const loops::Stage& s) const {
    for (const loops::Stage* after = &s + 1; after < k_.stages.data() + k_.stages.size(); ++after) {
      if (after->loop) return false;
      for (Ref r : after->body)
        if (k_.instrs[r].kind == InstrKind::Indirect) return false;
    }
    return true;
  }

  // ---- Scans

  bool has_scan(const loops::Stage& s) const {
    return std::any_of(s.body.begin(), s.body.end(), [&](Ref r) { return k_.instrs[r].kind == InstrKind::Scan; });
  }

  // All threads execute all rounds because they exchange values in them. Threads past the end of the row read its last
  // elements and store nothing for them.
  void begin_rounds(const loops::Stage& s, Expr row, const std::string& lane) {
    for (Ref r : s.body)
      if (k_.instrs[r].kind == InstrKind::Scan) text_lines(begin_scan(team_scan(r)));
    const int64_t round = t_.team * t_.each;
    if (t_.held > 0) {
      line("#pragma unroll");
      line("for (int k = 0; k < {}; ++k) {{", t_.held);
      line("const {} own = ({} + k * {}) * {};", index_, lane, t_.team, t_.each);
    } else {
      line("int turn = 0;");
      // Starts loads of later rounds early, unless threads synchronise in each round.
      const size_t most = t_.team == 1 ? 8 : t_.team <= 32 ? 2 : 1;
      line("#pragma unroll {}",
           std::clamp<size_t>(kUnrolled / (s.body.size() * static_cast<size_t>(t_.each)), 1, most));
      line("for ({} begin = 0; begin < {}; begin += {}, turn ^= 1) {{", index_, text(row), round);
      line("const {} own = begin + {} * {};", index_, lane, t_.each);
    }
    const bool whole = provably_divisible(row, round) && (t_.held == 0 || row.is_constant(round * t_.held));
    if (whole) {
      line("const {} at = own;", index_);
      return;
    }
    line("const bool in_row = own < {};", text(row));
    line("const {} at = in_row ? own : {} - {};", index_, text(row), t_.each);
    in_row_ = "in_row";
  }

  TeamScan team_scan(Ref r) const {
    const Instr& i = k_.instrs[r];
    TeamScan s;
    s.number = r;
    s.type = value_type_name(i.dtype);
    s.identity = identity_text(i);
    s.team = t_.team;
    s.each = t_.each;
    s.parity = t_.held > 0 ? "k % 2" : "turn";
    s.value = [this, from = i.in[0]](const std::string& u) {
      return arrays_.contains(from) ? fmt::format("x{}[{}]", from, u) : value(from);
    };
    s.combined = [this, &i](const std::string& a, const std::string& b) { return combined_text(i, a, b); };
    return s;
  }

  void text_lines(std::string_view text) {
    for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
      line("{}", text.substr(0, end));
  }

  // Elements with a common divisor are multiplied by its reciprocal, which differs from the quotient by at most one
  // unit in the last place. Scaling by a power of two keeps the reciprocal of very small or large divisors a normal
  // number and changes no bit of a quotient that is one.
  void prepare_divisors(const loops::Stage& s) {
    for (Ref r : s.body) {
      const Instr& i = k_.instrs[r];
      if (i.kind != InstrKind::Compute || i.prim != Prim::Div || i.dtype != DType::F32) continue;
      const Ref by = i.in[1];
      const bool uniform = !by_column_[by] && k_.instrs[by].kind != InstrKind::Constant &&
                           std::find(s.body.begin(), s.body.end(), by) == s.body.end();
      if (!uniform || !divisors_.insert(by).second) continue;
      line("const float e{0} = fabsf({1}) < bits_float(0x1f800000u) ? bits_float(0x5f800000u)", by, value(by));
      line("               : fabsf({0}) > bits_float(0x5f800000u) ? bits_float(0x1f800000u) : 1.0f;", value(by));
      line("const float d{0} = 1.0f / ({1} * e{0});", by, value(by));
    }
  }

  // ---- Adjacent elements

  // The range of which a thread processes several elements at once in this stage; nullptr: one element at a time.
  const Range* taken_together(const loops::Stage& s) const {
    if (column_) return column_;
    const Range& last = k_.ranges.back();
    return t_.each > 1 && s.loop == (last.kind == RangeKind::Inner) ? &last : nullptr;
  }

  // Whether all of them are accessed at once or in a few wide accesses. A mask common to all of them is computed
  // before.
  bool is_packed(const Instr& i, const Range& range, const loops::Stage& s) const {
    if (i.kind == InstrKind::RowStore || i.kind == InstrKind::RowLoad) return t_.shared;
    const auto before = [&](Ref mask) {
      return k_.instrs[mask].kind == InstrKind::Constant ||
             (!by_column_[mask] && std::find(s.body.begin(), s.body.end(), mask) == s.body.end());
    };
    const bool load = i.kind == InstrKind::Load && (i.in[0] == kNoRef || before(i.in[0]));
    const bool store = i.kind == InstrKind::Store && i.in[1] == kNoRef;
    const bool add = i.kind == InstrKind::StoreAdd && i.in[1] == kNoRef && i.dtype == DType::F32;
    if (!load && !store && !add) return false;
    const int64_t bytes = std::min<int64_t>(16, t_.each * element_size(i.dtype));
    if (k_.buffers[static_cast<size_t>(i.buffer)].alignment < bytes) return false;
    const auto step = coefficient_of(i.index, range.var);
    if (!step || !step->is_constant(1)) return false;
    return !names_varying_place(i.index) && provably_divisible(i.index - range.var, t_.each);
  }

  // Whether the index contains an indirect index that differs between a thread's elements.
  bool names_varying_place(Expr index) const {
    if (index.is_constant()) return false;
    for (Expr s : symbols_of(index)) {
      if (s.node()->symbol_kind != SymbolKind::Indirect) continue;
      for (Ref r = 0; r < k_.instrs.size(); ++r)
        if (k_.instrs[r].kind == InstrKind::Indirect && k_.instrs[r].index == s && varies_[r]) return true;
    }
    return false;
  }

  // Finds the values of the stage that differ between a thread's elements.
  void look_at_elements(const loops::Stage& s, const Range& range) {
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

  void body(const loops::Stage& s) {
    const Range* const range = taken_together(s);
    if (!range) {
      for (Ref r : s.body) instr(r, s.loop);
      return;
    }
    look_at_elements(s, *range);
    packed_.assign(k_.instrs.size(), false);
    for (Ref r : s.body)
      if (!varies_[r]) instr(r, s.loop);
    for (Ref r : s.body) {
      const Instr& i = k_.instrs[r];
      if (!(packed_[r] = is_packed(i, *range, s))) continue;
      const std::string type = fmt::format("Pack<{}, {}>", stored_type(i.dtype), t_.each);
      if (i.kind == InstrKind::Load) {
        const std::string all = fmt::format("*(const {}*)(b{} + {})", type, i.buffer, text(i.index));
        if (i.in[0] == kNoRef) {
          line("const {} l{} = {};", type, r, all);
        } else {
          line("{} l{} = {{}};", type, r);
          line("if ({}) l{} = {};", operand(i, 0), r, all);
        }
      } else if (i.kind == InstrKind::RowLoad) {
        line("const {} l{} = *(const {}*)(r{} + at);", type, r, type, i.slot);
      } else {
        line("{} l{};", type, r);
      }
    }
    const std::string first = names_.at(range->var);
    for (Ref r : s.body)
      if (is_array(r, s)) {
        arrays_.insert(r);
        line("{} x{}[{}];", value_type_name(loops::value_type(k_, r)), r, t_.each);
      } else if (along() > 1 && sum_of(r)) {
        line("{} g{}[{}];", value_type_name(k_.instrs[r].dtype), r, t_.each);
      }
    names_[range->var] = fmt::format("({} + u)", first);
    // Emits the code between consecutive scans.
    for (auto from = s.body.begin(); from != s.body.end();) {
      const auto to = std::find_if(from, s.body.end(), [&](Ref r) { return k_.instrs[r].kind == InstrKind::Scan; });
      if (std::any_of(from, to, [&](Ref r) { return varies_[r]; })) {
        line("#pragma unroll");
        line("for (int u = 0; u < {}; ++u) {{", t_.each);
        std::for_each(from, to, [&](Ref r) {
          if (varies_[r]) instr(r, s.loop);
        });
        line("}}");
      }
      if (to != s.body.end()) text_lines(scan_round(team_scan(*to)));
      from = to == s.body.end() ? to : to + 1;
    }
    names_[range->var] = first;
    const std::string when = when_stored(s.loop);
    for (Ref r : s.body) {
      const Instr& i = k_.instrs[r];
      if (along() > 1 && sum_of(r)) line("{}{}", in_row(), added_to_sum(r));
      if (packed_[r] && i.kind == InstrKind::RowStore)
        line("{}*(Pack<{}, {}>*)(r{} + at) = l{};", in_row(), stored_type(i.dtype), t_.each, i.slot, r);
      if (packed_[r] && i.kind == InstrKind::Store)
        line("{}*(Pack<{}, {}>*)(b{} + {}) = l{};", when, stored_type(i.dtype), t_.each, i.buffer, text(i.index), r);
      if (packed_[r] && i.kind == InstrKind::StoreAdd)
        line("{}add_all(b{} + {}, l{});", when, i.buffer, text(i.index), r);
    }
    packed_.assign(k_.instrs.size(), false);
  }
  // Whether the value is kept for each of a thread's elements, because later stages or the code after a scan use it.
  bool is_array(Ref r, const loops::Stage& s) const {
    const InstrKind kind = k_.instrs[r].kind;
    if (kind == InstrKind::Constant || kind == InstrKind::Accumulate || kind == InstrKind::RowStore ||
        loops::writes(kind))
      return false;
    return s.loop ? has_scan(s) && varies_[r] : by_column_[r];
  }
  std::string in_row() const { return in_row_.empty() ? "" : "if (" + in_row_ + ") "; }
  // The condition under which a thread stores. `mask`: the instruction's own.
  std::string when_stored(bool loop, const std::string& mask = "") const {
    std::string when;
    const auto and_also = [&](const std::string& c) { when += (when.empty() ? "" : " && ") + c; };
    if (!in_row_.empty()) and_also(in_row_);
    if (may_lack_items()) and_also("live");
    if (t_.team > 1 && !loop) and_also("lane == 0");
    if (!mask.empty()) and_also(mask);
    return when.empty() ? "" : "if (" + when + ") ";
  }
  bool packed(Ref r) const { return r < packed_.size() && packed_[r]; }
  // The element of a row in shared memory. Adjacent elements of one thread are moved together.
  std::string in_shared(Ref r) const {
    return t_.each > 1 ? fmt::format("l{}.v[u]", r) : fmt::format("r{}[at]", k_.instrs[r].slot);
  }
  // The index of the current element in a row held in registers.
  std::string row_element() const { return t_.each > 1 ? fmt::format("k * {} + u", t_.each) : "k"; }

  // ---- Reductions

  // The name of an accumulator; an element of an array if a thread has several rows.
  std::string own(char kind, Ref r) const { return fmt::format("{}{}{}", kind, r, by_column_[r] ? "[u]" : ""); }
  // Emits what `fn` writes once, or in a loop over a thread's rows.
  template <class F>
  void for_rows(Ref r, F&& fn) {
    if (!by_column_[r]) return fn();
    line("#pragma unroll");
    line("for (int u = 0; u < {}; ++u) {{", t_.each);
    fn();
    line("}}");
  }

  // The variables of an accumulator that are combined over a team: the value, and what belongs to it, which is a
  // position or an online sum, for squares with the count and mean of their elements.
  struct Variable {
    char kind;
    std::string_view type;
  };
  std::vector<Variable> variables_of(Ref r) const {
    const Instr& i = k_.instrs[r];
    const std::string_view t = value_type_name(i.dtype);
    std::vector<Variable> out{{'a', t}};
    if (is_arg(i)) out.push_back({'p', "i64"});
    const loops::Online* const o = sum_of(r);
    if (o) out.push_back({'p', t});
    if (o && o->kind == loops::OnlineKind::Squares) out.insert(out.end(), {{'n', t}, {'m', t}});
    return out;
  }

  void begin_accumulator(Ref r) {
    const Instr& i = k_.instrs[r];
    const std::string rows = by_column_[r] ? fmt::format("[{}]", t_.each) : "";
    const std::vector<Variable> variables = variables_of(r);
    for (const Variable& v : variables) line("{} {}{}{};", v.type, v.kind, r, rows);
    for_rows(r, [&] {
      for (const Variable& v : variables) {
        const bool is_place = v.kind == 'p' && is_arg(i);
        line("{} = {};", own(v.kind, r), v.kind == 'a' ? identity_text(i) : is_place ? "0x7fffffffffffffffll" : "0");
      }
    });
  }

  void accumulate(Ref r) {
    const Instr& i = k_.instrs[r];
    if (sum_of(r)) {
      if (along() > 1) return line("g{}[u] = {};", r, operand(i, 0));
      line("const {} g{}[1] = {{{}}};", value_type_name(i.dtype), r, operand(i, 0));
      line("{}", added_to_sum(r));
    } else if (is_arg(i)) {
      take_better(r, operand(i, 0), operand(i, 1));
    } else {
      line("{} = {};", own('a', r), combined_text(i, own('a', r), operand(i, 0)));
    }
  }

  void take_better(Ref r, const std::string& x, const std::string& at) {
    const Instr& i = k_.instrs[r];
    const std::string a = own('a', r), p = own('p', r);
    line("if (beats<{}>({}, {}, {}, {}, {})) {{ {} = {}; {} = {}; }}", value_type_name(i.dtype), x, at, a, p,
         i.reduce == ReduceOp::ArgMax, a, x, p, at);
  }

  // The online sum that belongs to this accumulator, or nullptr.
  const loops::Online* sum_of(Ref first) const {
    const auto it = std::find_if(k_.online.begin(), k_.online.end(), [&](const auto& o) { return o.first == first; });
    return it == k_.online.end() ? nullptr : &*it;
  }
  bool is_online_squares(Ref r) const { return sum_of(r) && sum_of(r)->kind == loops::OnlineKind::Squares; }
  // The statement that adds the elements g to an accumulator and to its online sum.
  std::string added_to_sum(Ref r) const {
    const std::string a = own('a', r), p = own('p', r);
    if (!is_online_squares(r)) return fmt::format("add_relative({}, {}, g{});", a, p, r);
    return fmt::format("add_moments({}, {}, {}, {}, g{});", a, p, own('n', r), own('m', r), r);
  }
  bool is_left_out(const loops::Stage& s) const {
    return std::any_of(k_.online.begin(), k_.online.end(), [&](const loops::Online& o) {
      return std::find(s.body.begin(), s.body.end(), o.sum) != s.body.end();
    });
  }

  // Afterwards every thread of the team has the result, or its first thread alone.
  void combine_over_team(Ref r, bool by_first) {
    combine_accumulator(r, by_first);
    const loops::Online* o = sum_of(r);
    if (!o) return;
    line("{} a{}{};", value_type_name(k_.instrs[r].dtype), o->sum, by_column_[r] ? fmt::format("[{}]", t_.each) : "");
    for_rows(r, [&] {
      const std::string sum = own('a', o->sum), a = own('a', r), p = own('p', r);
      switch (o->kind) {
        case loops::OnlineKind::Exp: return line("{} = sum_of({}, {});", sum, a, p);
        case loops::OnlineKind::FiniteExp: return line("{} = sum_of_finite({}, {});", sum, a, p);
        case loops::OnlineKind::Squares: return line("{} = {};", sum, p);
      }
    });
  }

  // Combines the accumulator with the variables that another thread has.
  void meet(Ref r, const std::vector<std::string>& other) {
    const std::string a = own('a', r), p = own('p', r);
    if (is_arg(k_.instrs[r])) {
      take_better(r, other[0], other[1]);
    } else if (is_online_squares(r)) {
      line("meet_moments({}, {}, {}, {}, {});", a, p, own('n', r), own('m', r), fmt::join(other, ", "));
    } else if (sum_of(r)) {
      line("add_sums({}, {}, {});", a, p, fmt::join(other, ", "));
    } else {
      line("{} = {};", a, combined_text(k_.instrs[r], a, other[0]));
    }
  }

  void combine_accumulator(Ref r, bool by_first) {
    const std::vector<Variable> variables = variables_of(r);
    const auto each_variable = [&](auto&& name) {
      std::vector<std::string> names;
      for (const Variable& v : variables) names.push_back(name(v));
      return names;
    };
    // The distance between threads of a warp that belong to one team: 1, or the number of teams.
    const int64_t teams = t_.block / t_.team, between = t_.across ? teams : 1,
                  width = t_.across ? 32 : std::min<int64_t>(t_.team, 32);
    const bool in_warps = width % between == 0;
    for_rows(r, [&] {
      for (int64_t mask = width / 2; in_warps && mask >= between; mask /= 2) {
        line("{{");
        for (const Variable& v : variables)
          line("const {0} other_{1} = from_lane<{0}>({2}, {3});", v.type, v.kind, own(v.kind, r), mask);
        meet(r, each_variable([](const Variable& v) { return fmt::format("other_{}", v.kind); }));
        line("}}");
      }
    });
    if (!t_.across && t_.team <= 32) return;
    // Combines through shared memory: one value per warp, or one per thread.
    const int64_t parts = in_warps ? t_.block / 32 : t_.team, each = by_column_[r] ? t_.each : 1;
    if (parts == 1) return;
    const std::string of_team = t_.across ? fmt::format("threadIdx.x % {}", teams) : "0";
    const std::string part = !in_warps    ? "threadIdx.x"
                             : !t_.across ? "lane / 32"
                                          : fmt::format("threadIdx.x / 32 * {} + {}", teams, of_team);
    const std::string writes = !in_warps ? "" : fmt::format("if (threadIdx.x % 32 < {}) ", between);
    const auto place = [&](const std::string& at) {
      return each > 1 ? fmt::format("u * {} + {}", parts * teams, at) : at;
    };
    for (const Variable& v : variables) line("__shared__ {} shared_{}{}[{}];", v.type, v.kind, r, parts * teams * each);
    for_rows(r, [&] {
      for (const Variable& v : variables)
        line("{}shared_{}{}[{}] = {};", writes, v.kind, r, place(part), own(v.kind, r));
    });
    line("__syncthreads();");
    if (by_first) line("if (lane == 0) {{");
    const auto shared = [&](const std::string& at) {
      return each_variable([&](const Variable& v) { return fmt::format("shared_{}{}[{}]", v.kind, r, place(at)); });
    };
    for_rows(r, [&] {
      const std::vector<std::string> first = shared(of_team);
      for (size_t v = 0; v < variables.size(); ++v) line("{} = {};", own(variables[v].kind, r), first[v]);
      line("#pragma unroll");
      line("for (int w = 1; w < {}; ++w) {{", parts);
      meet(r, shared(fmt::format("w * {} + {}", teams, of_team)));
      line("}}");
    });
    if (by_first) line("}}");
  }

  // ---- Instructions

  std::string value(Ref r) const {
    const Instr& i = k_.instrs[r];
    if (const auto known = known_.find(r); known != known_.end()) return known->second ? "true" : "false";
    if (i.kind == InstrKind::Constant) {
      if (is_float(i.dtype)) return literal(i.fimm, i.dtype);
      if (i.dtype == DType::Bool) return i.imm ? "true" : "false";
      return fmt::format("({})0x{:x}ull", stored_type(i.dtype), static_cast<uint64_t>(i.imm));
    }
    return fmt::format("x{}{}", r, arrays_.contains(r) ? "[u]" : "");
  }
  std::string operand(const Instr& i, size_t n) const { return value(i.in[n]); }

  // The value to store. A narrow float is rounded by the store, so a cast before it is left out.
  std::string stored(const Instr& i) const {
    const Instr& from = k_.instrs[i.in[0]];
    const bool rounds = from.kind == InstrKind::Cast && from.dtype == i.dtype && is_narrow(i.dtype) &&
                        loops::value_type(k_, from.in[0]) == DType::F32;
    return to_store(i.dtype, rounds ? operand(from, 0) : operand(i, 0));
  }

  // The bits of a half that is kept in a row.
  std::string half(const Instr& i) const {
    const Instr& from = k_.instrs[i.in[0]];
    const bool as_loaded = from.kind == InstrKind::Load && from.in[0] == kNoRef;
    return as_loaded ? fmt::format("h{}", i.in[0]) : to_store(i.dtype, operand(i, 0));
  }

  void instr(Ref r, bool loop) {
    const Instr& i = k_.instrs[r];
    const auto define = [&](const std::string& text) {
      if (arrays_.contains(r)) return line("{} = {};", value(r), text);
      line("const {} x{} = {};", value_type_name(loops::value_type(k_, r)), r, text);
    };
    switch (i.kind) {
      case InstrKind::Constant: return;
      case InstrKind::Index: return define(fmt::format("({}){}", value_type_name(i.dtype), text(i.index)));
      case InstrKind::Load: {
        const loops::Tile& t = k_.tile;
        const std::string element = is_tiled(r)
                                        ? fmt::format("q{}[at % {} * {} + at / {}]", r, t.columns, t.pitch, t.columns)
                                    : packed(r)   ? fmt::format("l{}.v[u]", r)
                                    : is_value(i) ? fmt::format("b{}", i.buffer)
                                                  : fmt::format("b{}[{}]", i.buffer, text(i.index));
        if (i.in[0] == kNoRef && is_half(i.dtype)) {  // kept unconverted, for a row
          line("const u16 h{} = {};", r, element);
          return define(loaded(i.dtype, fmt::format("h{}", r)));
        }
        if (i.in[0] == kNoRef || packed(r)) return define(loaded(i.dtype, element));
        return define(fmt::format("{} ? {} : 0", operand(i, 0), loaded(i.dtype, element)));
      }
      case InstrKind::Compute: return define(computed(i));
      case InstrKind::Cast: return define(cast_text(loops::value_type(k_, i.in[0]), i.dtype, operand(i, 0)));
      case InstrKind::Indirect:
        if (i.in[1] != kNoRef)
          line("if (!({})) __assertfail(\"index out of range\", \"{}\", 0, \"Vesta\", 1);", operand(i, 1), symbol_);
        names_[i.index] = arrays_.contains(r) ? value(r) : fmt::format("t{}", r);
        if (arrays_.contains(r)) return line("{} = {};", value(r), operand(i, 0));
        return line("const {} t{} = ({}){};", index_, r, index_, operand(i, 0));
      case InstrKind::Store:
      case InstrKind::StoreAdd: {
        if (packed(r)) return line("l{}.v[u] = {};", r, stored(i));
        const std::string when = when_stored(loop, i.in[1] == kNoRef ? std::string() : operand(i, 1));
        if (i.kind == InstrKind::StoreAdd)
          return line("{}add_to(b{} + {}, {});", when, i.buffer, text(i.index), stored(i));
        return line("{}b{}[{}] = {};", when, i.buffer, text(i.index), stored(i));
      }
      case InstrKind::Accumulate:
        if (in_row_.empty()) return accumulate(r);
        line("{}{{", in_row());
        accumulate(r);
        return line("}}");
      case InstrKind::Result: return define(own(i.imm == 1 ? 'p' : 'a', i.in[0]));
      case InstrKind::RowStore:
        if (t_.shared)
          return line("{}{} = {};", packed(r) ? "" : in_row(), in_shared(r),
                      is_half(i.dtype) ? half(i) : to_store(i.dtype, operand(i, 0)));
        if (is_half(i.dtype)) return line("keep_half(r{}, {}, {});", i.slot, row_element(), half(i));
        return line("r{}[{}] = {};", i.slot, row_element(), operand(i, 0));
      case InstrKind::RowLoad:
        if (t_.shared) return define(loaded(i.dtype, in_shared(r)));
        if (is_half(i.dtype)) return define(loaded(i.dtype, fmt::format("kept_half(r{}, {})", i.slot, row_element())));
        return define(fmt::format("r{}[{}]", i.slot, row_element()));
      case InstrKind::Scan: return text_lines(scan_round(team_scan(r)));
    }
  }

  std::string computed(const Instr& i) const {
    const std::string a = operand(i, 0);
    if (i.prim == Prim::Div && divisors_.contains(i.in[1])) return fmt::format("{1} * e{0} * d{0}", i.in[1], a);
    return primitive_text(i.prim, loops::compute_type(k_, i), a, arity(i.prim) > 1 ? operand(i, 1) : std::string(),
                          arity(i.prim) > 2 ? operand(i, 2) : std::string());
  }

  const Kernel& k_;
  const loops::Threads& t_;
  const std::string& symbol_;
  const Range* column_ = nullptr;        // the range of which a thread has several elements, if teams lie across it
  std::vector<bool> by_column_;          // by instruction: the value differs between them
  std::unordered_set<Ref> arrays_;       // values that are kept for each of a thread's elements
  std::unordered_map<Ref, bool> known_;  // masks with a known value in the current loop
  std::unordered_set<Ref> divisors_;     // divisors whose reciprocal is computed
  std::vector<bool> packed_, varies_;    // by instruction of the current stage
  std::string in_row_;  // in a scan: the condition that the thread's elements are in the row; empty: they always are
};

}  // namespace

std::string cuda_source(const Kernel& kernel, const std::string& symbol) { return Writer(kernel, symbol).run(); }

}  // namespace vesta::codegen
