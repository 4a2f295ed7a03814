#include "codegen/cuda/source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "codegen/cuda/arithmetic.h"
#include "codegen/cuda/elements.h"
#include "codegen/cuda/product.h"
#include "codegen/cuda/scan.h"
#include "loops/neighbours.h"
#include "loops/product.h"

namespace vesta::codegen {

using loops::Instr;
using loops::InstrKind;
using loops::Kernel;
using loops::kNoRef;
using loops::Range;
using loops::RangeKind;
using loops::Ref;

namespace {

constexpr size_t kUnrolled = 256;         // instructions of a loop that is unrolled
constexpr size_t kUnrolledColumns = 512;  // instructions of an unrolled loop in which a thread has several columns
constexpr int64_t kMomentThreads = 768;   // threads of a multiprocessor if each keeps variances of several columns
constexpr size_t kMostMasks = 4;          // masks of whole rows; each gets a loop of its own

class Writer : ElementLines {
 public:
  Writer(const Kernel& k, const std::string& symbol) : ElementLines(k), symbol_(symbol) {}

  std::string run() {
    VESTA_CHECK(t_.block > 0, "a kernel without threads");
    find_columns();
    if (k_.product.rows > 0) {
      product();
      return std::move(out_);
    }
    header();
    line("wait_for_earlier_kernels();");
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
    for (Ref r = 0; r < k_.instrs.size(); ++r)
      if (const Ref term = loops::relative_term(k_, r); term != kNoRef && k_.instrs[term].dtype == DType::F32)
        relative_.insert(term);
    if (t_.shared) told_ = loops::shared_offset(k_, static_cast<int>(k_.row_slots.size()));
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
    const bool columns = (t_.across && !loops::has_scan(k_)) || k_.product.rows > 0 || k_.tile.rows > 0;
    if (!columns || t_.each == 1) return;
    const auto inner = [](const Range& r) { return r.kind == RangeKind::Inner; };
    column_ = &*std::prev(std::find_if(k_.ranges.begin(), k_.ranges.end(), inner));
    std::unordered_set<Expr> symbols = {column_->var};
    const std::vector<char> pieces = loops::indices_of_pieces(k_.instrs, column_->var, t_.each);
    for (const loops::Stage& s : k_.stages)
      for (Ref r : s.body) {
        const Instr& i = k_.instrs[r];
        bool differs = false;
        if (loops::has_index(i.kind) && !pieces[r])
          for (Expr e : symbols_of(i.index)) differs |= symbols.contains(e);
        for (Ref o : i.in) differs |= o != kNoRef && by_column_[o];
        differs |= i.kind == InstrKind::StoreAdd;  // stores once per row
        by_column_[r] = differs;
        if (differs && i.kind == InstrKind::Indirect) symbols.insert(i.index);
      }
  }

  void header() {
    // Without doubles, limits registers so that 1024 threads fit.
    const bool doubles = std::any_of(k_.instrs.begin(), k_.instrs.end(), [&](const Instr& i) {
      return i.dtype == DType::F64 && !(i.kind == InstrKind::Load && is_value(i));
    });
    const bool apart = std::all_of(k_.buffers.begin(), k_.buffers.end(), [](const auto& b) { return b.noalias; });
    const int64_t parts = std::max(k_.product.parts, t_.parts);
    const std::string together = parts > 1 ? fmt::format(" __cluster_dims__({}, 1, 1)", parts) : std::string();
    const bool moments = column_ && std::any_of(k_.online.begin(), k_.online.end(), [](const loops::Online& o) {
                           return o.kind == loops::OnlineKind::Squares;
                         });
    int64_t blocks = 0;  // so many must fit a multiprocessor, which bounds the registers of a thread; 0: no bound
    if (k_.product.rows > 0) {
      blocks = 1;
    } else if (!doubles && (t_.block == 512 || moments)) {
      blocks = t_.block == 512 ? 2 : std::max<int64_t>(1, kMomentThreads / t_.block);
    }
    out_ += fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}){} {}(", t_.block,
                        blocks > 0 ? fmt::format(", {}", blocks) : "", together, symbol_);
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
    if (items == 1) {  // each block has an item, or each few blocks
      if (t_.parts > 1) {
        line("parts_arrive();");
        lane = fmt::format("own_part<{}>() * {} + {}", t_.parts, t_.block, lane);
      }
      line("const int lane = {};", lane);
      line("const {} item = ({})blockIdx.x{};", index_, index_, t_.parts > 1 ? fmt::format(" / {}", t_.parts) : "");
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

  // A block processes one tile: its threads load it along the rows into shared memory, then compute and store along the
  // columns, in both cases `each` neighbours at once.
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
    for (Ref r : t.loads)
      line("__shared__ __align__(16) {} q{}[{}];", stored_type(k_.instrs[r].dtype), r, t.columns * t.pitch);

    names_[k_.ranges[row].var] = fmt::format("v{}", row);
    names_[k_.ranges[column].var] = fmt::format("v{}", column);
    const auto elements = [&](size_t fast, size_t slow, int64_t size) {
      const int64_t all = t.rows * t.columns, round = t_.block * t_.each;
      line("#pragma unroll");
      line("for (int k = 0; k < {}; ++k) {{", (all + round - 1) / round);
      line("const int at = ((int)threadIdx.x + k * {}) * {};", t_.block, t_.each);
      if (all % round != 0) line("if (at >= {}) continue;", all);
      line("const {} v{} = first{} + at % {}, v{} = first{} + at / {};", index_, fast, fast, size, slow, slow, size);
      for (const size_t d : {row, column})
        if (const Expr n = k_.ranges[d].extent; !provably_divisible(n, d == row ? t.rows : t.columns))
          line("if (v{} >= {}) continue;", d, text(n));
    };
    if (t.lies_together()) {
      line("const int columns = {1} - first{0} < {2} ? (int)({1} - first{0}) : {2};", column,
           text(k_.ranges[column].extent), t.columns);
      for (Ref r : t.loads) copy_piece(r, row, column);
      line("copies_arrive();");
    } else {
      copy_square(row, column, elements);
    }
    line("__syncthreads();");
    elements(column, row, t.columns);
    for (const loops::Stage& s : k_.stages) body(s);
    line("}}");
  }

  // Copies what lies together, in accesses of 16 bytes where memory allows.
  void copy_piece(Ref r, size_t row, size_t column) {
    const Instr& i = k_.instrs[r];
    const int64_t rows = k_.tile.rows, wide = 16 / element_size(i.dtype);
    const Expr v = k_.ranges[column].var;
    const bool aligned = k_.buffers[static_cast<size_t>(i.buffer)].alignment >= 16 && k_.tile.columns % wide == 0 &&
                         provably_divisible(k_.ranges[column].extent, wide) &&
                         provably_divisible(i.index - k_.ranges[row].var - rows * v, wide);
    names_[k_.ranges[row].var] = "0";
    names_[v] = fmt::format("first{}", column);
    line("#pragma unroll {}", aligned ? 4 : 8);
    line("for (int at = (int)threadIdx.x{0}; at < columns * {1}; at += {2})", aligned ? fmt::format(" * {}", wide) : "",
         rows, aligned ? t_.block * wide : t_.block);
    if (aligned || element_size(i.dtype) >= 4) {  // what copies asynchronously
      line("copy_to_row<{3}>(q{0} + at, b{1} + {2} + at);", r, i.buffer, text(i.index),
           aligned ? 16 : element_size(i.dtype));
    } else {
      line("q{0}[at] = b{1}[{2} + at];", r, i.buffer, text(i.index));
    }
    names_[k_.ranges[row].var] = fmt::format("v{}", row);
    names_[v] = fmt::format("v{}", column);
  }

  // Reads a square along its rows. `elements` begins a loop over its elements.
  template <class Elements>
  void copy_square(size_t row, size_t column, const Elements& elements) {
    const loops::Tile& t = k_.tile;
    elements(row, column, t.rows);
    for (Ref r : t.loads) {
      const Instr& i = k_.instrs[r];
      const std::string place = fmt::format("q{}[at / {} * {} + at % {}", r, t.rows, t.pitch, t.rows);
      if (t_.each == 1) {
        line("{}] = b{}[{}];", place, i.buffer, text(i.index));
        continue;
      }
      const bool together = is_aligned(i, k_.ranges[row]);
      if (together) line("const auto l{} = {};", r, pack_at(i));
      names_[k_.ranges[row].var] = fmt::format("(v{} + u)", row);
      line("#pragma unroll");
      line("for (int u = 0; u < {}; ++u) {} + u] = {};", t_.each, place,
           together ? fmt::format("l{}.v[u]", r) : fmt::format("b{}[{}]", i.buffer, text(i.index)));
      names_[k_.ranges[row].var] = fmt::format("v{}", row);
    }
    line("}}");
  }

  // A block computes one tile of the sums, or a part of its terms, then the other stages for its elements.
  void product() {
    const loops::ProductTile& p = k_.product;
    const std::vector<loops::ProductSum> sums = loops::product_sums(k_);
    VESTA_CHECK(!sums.empty(), "tiles of a kernel that is no matrix product");
    const auto count = static_cast<int64_t>(sums.size());
    const Expr rows = k_.ranges[0].extent, columns = k_.ranges[1].extent;
    const loops::ProductTypes types = loops::product_types(k_.instrs, sums[0]);
    out_ = kProductPrelude + product_instruction(p.columns * count, types);
    header();
    names_[k_.ranges[0].var] = "v0";
    names_[k_.ranges[1].var] = "v1";
    names_[k_.ranges[2].var] = "0";
    line("const {0} tile = ({0})blockIdx.x / {1}, tiles = {2};", index_, p.parts, text(ceildiv(rows, p.rows)));
    line("const {} first0 = tile % tiles * {}, first1 = tile / tiles * {};", index_, p.rows, p.columns);
    const bool all_rows = provably_divisible(rows, p.rows), all_columns = provably_divisible(columns, p.columns);
    const auto first_of = [&](Ref load) {
      const Instr& i = k_.instrs[load];
      return fmt::format("(const u8*)(b{} + {})", i.buffer, text(i.index));
    };
    line("const auto row = [&](int n) -> const u8* {{");
    line("const {} v0 = first0 + n;", index_);
    line("return {};", first_of(sums[0].row));
    line("}};");
    line("const auto column = [&](int n) -> const u8* {{");
    // Of columns past the last one, which are not stored, that one is read again.
    const std::string last = all_columns ? "" : fmt::format("v_min<{}>({} - 1, ", index_, text(columns));
    line("const {} v1 = {}first1 + n % {}{};", index_, last, p.columns, all_columns ? "" : ")");
    conditions_of(sums);
    for (int64_t s = 0; s < count; ++s)
      for (const loops::ProductPiece& piece : sums[static_cast<size_t>(s)].columns) {
        std::string when = s + 1 < count ? fmt::format("n < {}", (s + 1) * p.columns) : "";
        if (piece.condition != kNoRef) when += (when.empty() ? "" : " && ") + value(piece.condition);
        line("{}return {};", when.empty() ? "" : "if (" + when + ") ", first_of(piece.load));
      }
    line("}};");
    const bool early = std::all_of(sums.begin(), sums.end(), [&](const loops::ProductSum& s) {
      return std::all_of(s.columns.begin(), s.columns.end(), [&](const loops::ProductPiece& piece) {
        return k_.buffers[static_cast<size_t>(k_.instrs[piece.load].buffer)].constant;
      });
    });
    const std::string height = all_rows ? std::to_string(p.rows) : fmt::format("(int)({} - first0)", text(rows));
    const int64_t pitch = loops::product_pitch(p, sums.size()), of_part = p.rows / p.parts,
                  of_row = p.columns / t_.each;
    line("const float* const sums = product<{}, {}, {}, {}, {}, {}, {}>({}, shared_rows, {}, row, column);", p.rows,
         p.columns * count, p.stages, p.parts, text(k_.ranges[2].extent * element_size(types.row)),
         product_operands(types), early, pitch, height);
    line("if (!sums) return;");
    line("for (int at = (int)threadIdx.x; at < {}; at += {}) {{", of_part * of_row, loops::kProductConsumers);
    line("const int n0 = at / {} + own_part<{}>() * {}, n1 = at % {} * {};", of_row, p.parts, of_part, of_row, t_.each);
    line("const {} v0 = first0 + n0, v1 = first1 + n1;", index_);
    if (!all_rows) line("if (v0 >= {}) continue;", text(rows));
    if (!all_columns) line("if (v1 >= {}) continue;", text(columns));
    for (int64_t s = 0; s < count; ++s) {
      const Ref sum = sums[static_cast<size_t>(s)].sum;
      line("float s{}[{}];", sum, t_.each);
      line("take_sums<{}, {}>(s{}, sums + n0 * {} + {} + n1);", p.parts, t_.each, sum, pitch, s * p.columns);
    }
    for (const loops::Stage& s : k_.stages) {
      if (!s.loop) body(s);
    }
    line("}}");
    if (p.parts > 1) line("parts_meet();");
    out_ += "}\n";
  }
  // Computes the conditions of the pieces of columns.
  void conditions_of(const std::vector<loops::ProductSum>& sums) {
    std::vector<bool> needed(k_.instrs.size(), false);
    for (const loops::ProductSum& s : sums)
      for (const loops::ProductPiece& piece : s.columns)
        if (piece.condition != kNoRef) needed[piece.condition] = true;
    for (Ref r = static_cast<Ref>(needed.size()); r-- > 0;)
      for (const Ref o : k_.instrs[r].in)
        if (needed[r] && o != kNoRef) needed[o] = true;
    for (const loops::Stage& s : k_.stages)
      for (const Ref r : s.body)
        if (needed[r]) instr(r, false);
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
    std::vector<Ref> accumulators;
    for (Ref r : s.body)
      if (k_.instrs[r].kind == InstrKind::Accumulate) accumulators.push_back(r);
    if (!accumulators.empty()) combine_over_team(accumulators, is_for_stores(s));
  }

  // The loop of a stage over the thread's elements.
  void rounds(const loops::Stage& s) {
    const Expr row = loops::row_elements(k_);
    const std::string lane = t_.team == 1 ? "0" : "lane";
    // Unrolls rows in registers, and rows that a few threads of a warp share in the same small number of rounds.
    const int64_t team = t_.team * t_.parts, round = team * along();
    const bool even = t_.team > 1 && t_.team < 32 && row.is_constant() && row.constant() % round == 0;
    if (has_scan(s)) {
      begin_rounds(s, row, lane);
    } else if (t_.held > 0 || (even && !t_.across && row.constant() <= 4 * round)) {
      const int64_t times = t_.held > 0 ? t_.held : row.constant() / round;
      line("#pragma unroll");
      line("for (int k = 0; k < {}; ++k) {{", times);
      line("const {} at = ({} + k * {}) * {};", index_, lane, team, along());
      if (!row.is_constant(round * times)) line("if (at >= {}) break;", text(row));
    } else {
      const bool kept = t_.shared && t_.parts > 1;  // a part keeps its own elements side by side
      const std::string loop = fmt::format("for ({0} at = {1} * {2}{3}; at < {4}; at += {5}{6}) {{", index_, lane,
                                           along(), kept ? fmt::format(", own = (int)threadIdx.x * {}", along()) : "",
                                           text(row), round, kept ? fmt::format(", own += {}", t_.team * along()) : "");
      if (known_.empty()) copy_rows(s, loop);
      // Unrolls far enough to keep the memory busy with loads.
      if (t_.team >= 32) {
        const size_t most = std::clamp<size_t>((column_ ? kUnrolledColumns : kUnrolled) / instructions(s), 1, 4);
        line("#pragma unroll {}", column_ ? std::bit_floor(most) : most);
      }
      line("{}", loop);
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
      const size_t most = t_.team == 1 ? 8 : t_.team <= 32 && !t_.across ? 2 : 1;
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
    s.columns = t_.across ? t_.block / t_.team : 0;
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
      if (loops::is_relative_sum(k_, by)) {  // neither small nor large
        line("const float d{0} = 1.0f / {1};", by, value(by));
        continue;
      }
      line("const float e{0} = fabsf({1}) < bits_float(0x1f800000u) ? bits_float(0x5f800000u)", by, value(by));
      line("               : fabsf({0}) > bits_float(0x5f800000u) ? bits_float(0x1f800000u) : 1.0f;", value(by));
      line("const float d{0} = 1.0f / ({1} * e{0});", by, value(by));
    }
  }

  // ---- Adjacent elements

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
      if (!(packed_[r] = is_packed(i, *range, s)) || (i.kind == InstrKind::RowStore && is_copied_row(r))) continue;
      const std::string type = fmt::format("Pack<{}, {}>", stored_type(i.dtype), t_.each);
      if (i.kind == InstrKind::Load) {
        const std::string copied = copied_place(r);
        const std::string all = copied.empty() ? pack_at(i) : fmt::format("*(const {}*)({})", type, copied);
        if (i.in[0] == kNoRef) {
          line("const {} l{} = {};", type, r, all);
        } else {
          line("{} l{} = {{}};", type, r);
          line("if ({}) l{} = {};", operand(i, 0), r, all);
        }
      } else if (i.kind == InstrKind::RowLoad) {
        line("const {} l{} = *(const {}*)(r{} + {});", type, r, type, i.slot, kept_at());
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
      if (by_column_[r] && is_relative(r)) count_element(r);
      if (packed_[r] && i.kind == InstrKind::RowStore && !is_copied_row(r))
        line("{}*(Pack<{}, {}>*)(r{} + {}) = l{};", in_row(), stored_type(i.dtype), t_.each, i.slot, kept_at(), r);
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
    return t_.each > 1 ? fmt::format("l{}.v[u]", r) : fmt::format("r{}[{}]", k_.instrs[r].slot, kept_at());
  }

  // The index of the current element in a row held in registers.
  std::string row_element() const { return t_.each > 1 ? fmt::format("k * {} + u", t_.each) : "k"; }

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
  std::string position(const Instr& i) const { return is_arg(i) ? operand(i, 1) : std::string(); }

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
        const std::string element = is_tiled(r)   ? fmt::format("q{}[(at % {}{}) * {} + at / {}]", r, t.columns,
                                                              column_ ? " + u" : "", t.pitch, t.columns)
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
      case InstrKind::Compute:
        if (relative_.contains(r)) return define(fmt::format("relative_exp({})", operand(i, 0)));
        return define(computed(i));
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
        if (in_row_.empty()) return accumulate(r, operand(i, 0), position(i));
        line("{}{{", in_row());
        accumulate(r, operand(i, 0), position(i));
        return line("}}");
      case InstrKind::Result:
        if (k_.product.rows > 0) return define(fmt::format("s{}[{}]", i.in[0], column_ ? "u" : "0"));
        return define(own(i.imm == 1 ? 'p' : 'a', i.in[0]));
      case InstrKind::RowStore:
        if (is_copied_row(r)) return;
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
    if (k_.product.rows > 0 && i.dtype == DType::F32) {
      if (i.prim == Prim::Div) return fmt::format("quotient({}, {})", a, operand(i, 1));
      if (i.prim == Prim::Sigmoid) return fmt::format("quotient(1.0f, 1.0f + expf(-({})))", a);
    }
    if (i.prim == Prim::Div && divisors_.contains(i.in[1]))
      return fmt::format("{1} *{2} d{0}", i.in[1], a,
                         loops::is_relative_sum(k_, i.in[1]) ? "" : fmt::format(" e{} *", i.in[1]));
    if (const Ref erf = loops::erf_beside_one(k_, i); erf != kNoRef && !arrays_.contains(erf))
      return fmt::format("one_plus_erf({})", value(k_.instrs[erf].in[0]));
    return primitive_text(i.prim, loops::compute_type(k_, i), a, arity(i.prim) > 1 ? operand(i, 1) : std::string(),
                          arity(i.prim) > 2 ? operand(i, 2) : std::string());
  }

  const std::string& symbol_;
  std::unordered_set<Ref> arrays_;       // values that are kept for each of a thread's elements
  std::unordered_map<Ref, bool> known_;  // masks with a known value in the current loop
  std::unordered_set<Ref> divisors_;     // divisors whose reciprocal is computed
  std::unordered_set<Ref> relative_;     // terms of sums that are at least 1
  std::vector<bool> packed_;             // by instruction of the current stage
  std::string in_row_;  // in a scan: the condition that the thread's elements are in the row; empty: they always are
};

}  // namespace

std::string cuda_source(const Kernel& kernel, const std::string& symbol) { return Writer(kernel, symbol).run(); }

}  // namespace vesta::codegen
