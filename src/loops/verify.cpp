#include <algorithm>
#include <bit>

#include "loops/online.h"
#include "loops/product.h"
#include "loops/register_product.h"
#include "loops/rules.h"

namespace vesta::loops {

namespace {

constexpr int64_t kMostShared = 256 << 10;  // in bytes; no GPU has more
constexpr int64_t kMostParts = 16;          // blocks of a cluster, by the largest GPUs

class Verifier : Rules {
 public:
  explicit Verifier(const Kernel& k) : Rules("kernel", k.ranges, k.instrs), k_(k), stage_of_(k.instrs.size(), -1) {}

  void run() {
    ranges();
    require(!k_.stages.empty(), "it does nothing");
    for (size_t s = 0; s < k_.stages.size(); ++s) {
      stage_ = static_cast<int>(s);
      for (Ref r : k_.stages[s].body) {
        require(r < k_.instrs.size(), "stage {} names instruction {} of {}", s, r, k_.instrs.size());
        require(stage_of_[r] < 0, "instruction {} is in two places", r);
        instr(r);
        stage_of_[r] = stage_;
      }
    }
    for (const KernelBuffer& b : k_.buffers)
      require(!b.value || (k_.threads.block != 0 && !b.written), "an argument that is no value of a GPU's kernel");
    if (k_.threads.block != 0) threads();
    if (k_.product.rows != 0) product();
    if (k_.registers.rows != 0) registers();
    if (k_.tile.rows != 0) tile();
    if (!k_.ahead.loads.empty()) ahead();
    if (!k_.online.empty()) online();
  }

 private:
  static bool is_positive(Expr e) { return lower_bound(e).value_or(0) > 0; }

  void ranges() {
    bool inner = false;
    int last_parallel = -1;
    for (size_t i = 0; i < k_.ranges.size(); ++i) {
      range(i);
      if (k_.ranges[i].kind == RangeKind::Inner) {
        inner = true;
      } else {
        require(!inner, "parallel range {} comes after an inner one", i);
        last_parallel = static_cast<int>(i);
      }
    }
    require(k_.vector < static_cast<int>(k_.ranges.size()), "the vector range {} does not exist", k_.vector);
    if (k_.vector >= 0 && k_.ranges[static_cast<size_t>(k_.vector)].kind == RangeKind::Parallel) {
      require(k_.vector == last_parallel, "a parallel vector range must be the last parallel one");
      require(is_positive(k_.block), "a parallel vector range needs a block");
      require(k_.lanes > 0 && provably_divisible(k_.block, k_.lanes), "{} lanes do not divide blocks of {}", k_.lanes,
              to_string(k_.block));
    }
    require(k_.lanes > 0 && std::has_single_bit(static_cast<uint64_t>(k_.lanes)), "{} lanes are no power of two",
            k_.lanes);
    require(k_.lanes == 1 || k_.vector >= 0, "{} lanes without a vector range", k_.lanes);
  }

  void threads() const {
    const Threads& t = k_.threads;
    require(t.block > 0 && t.block <= 1024 && t.block % 32 == 0, "{} threads are no block", t.block);
    const bool neighbours = t.team == t.block || (t.team <= 32 && std::has_single_bit(static_cast<uint64_t>(t.team)));
    require(t.team > 0 && (t.across ? t.block % t.team == 0 : neighbours), "{} of {} threads are no team", t.team,
            t.block);
    require(t.each > 0 && t.each <= 16 && std::has_single_bit(static_cast<uint64_t>(t.each)), "{} elements each",
            t.each);
    if (t.each > 1) {
      const auto first =
          std::find_if(k_.ranges.begin(), k_.ranges.end(), [](const Range& r) { return r.kind == RangeKind::Inner; });
      const bool loops = first != k_.ranges.end();
      require(k_.ranges.back().kind == RangeKind::Inner || !loops, "elements of no range");
      require(loops || t.team == 1, "{} elements each of a team", t.each);
      require(!t.across || (first != k_.ranges.begin() && t.held == 0), "{} rows each of {} held", t.each, t.held);
      const bool rows = (t.across && !has_scan(k_)) || k_.product.rows > 0;
      const Expr extent = rows ? std::prev(first)->extent : k_.ranges.back().extent;
      require(provably_divisible(extent, t.each), "a range of {} is not for {} each", to_string(extent), t.each);
    }
    require(k_.vector < 0 && k_.ahead.loads.empty() && !k_.serial, "threads and a CPU's schedule");
    require(k_.tile.rows == 0 || t.team == 1, "a tile of teams");
    require(t.held > 0 || t.shared || (t.held == 0 && k_.row_slots.empty()), "rows that no thread holds");
    if (t.shared) {
      require(t.held == 0 && t.team == t.block && !t.across, "rows in shared memory of a team of {}", t.team);
      require(row_elements(k_).is_constant() && shared_bytes(k_) <= kMostShared, "rows of {} in shared memory",
              to_string(row_elements(k_)));
    }
    if (t.held > 0) {
      const Expr row = row_elements(k_);
      require(row.is_constant() && row.constant() <= t.team * t.parts * t.held * t.each,
              "{} teams of {} do not hold rows of {}", t.parts, t.team, to_string(row));
    }
    if (t.parts != 1) {
      const bool sums = std::any_of(k_.instrs.begin(), k_.instrs.end(),
                                    [](const Instr& i) { return i.kind == InstrKind::Accumulate; });
      require(t.parts > 1 && t.parts <= kMostParts && std::has_single_bit(static_cast<uint64_t>(t.parts)) &&
                  t.team == t.block && std::has_single_bit(static_cast<uint64_t>(t.team)) && !t.across && sums &&
                  !has_scan(k_) && k_.product.rows == 0,
              "{} parts of a team of {}", t.parts, t.team);
      require(shared_bytes(k_) <= kMostShared, "{} parts without room", t.parts);
    }
    for (const Instr& i : k_.instrs)
      if (i.buffer >= 0 && k_.buffers[static_cast<size_t>(i.buffer)].value)
        require(i.kind == InstrKind::Load && i.index.is_constant(0), "an argument is no memory");
    for (const Instr& i : k_.instrs) {
      require(i.kind != InstrKind::StoreAdd || adds_atomically(i.dtype), "threads have no atomic addition of {}",
              name(i.dtype));
    }
  }

  void product() const {
    const ProductTile& p = k_.product;
    const std::vector<ProductSum> sums = product_sums(k_);
    require(!sums.empty(), "a product without sums of products");
    const int64_t wide = p.columns * static_cast<int64_t>(sums.size());
    const DType element = product_types(k_.instrs, sums[0]).row;
    require(product_registers(p, sums.size(), element) <= kMostProductRegisters, "{} by {} sums in registers", p.rows,
            wide);
    require((p.rows == 64 || p.rows == 128 || p.rows == 256) && p.columns > 0 && p.columns % 8 == 0 && wide % 16 == 0 &&
                wide <= kMostProductColumns && p.columns % k_.threads.each == 0,
            "tiles of {} by {} for {} sums", p.rows, p.columns, sums.size());
    require(p.stages > 2 && (p.parts == 1 || p.parts == 2), "{} stages and {} parts", p.stages, p.parts);
    require(k_.threads.block == kProductThreads && k_.threads.team == 1 && k_.threads.held == 0 && !k_.threads.shared &&
                !k_.threads.across && k_.row_slots.empty() && k_.tile.rows == 0,
            "threads that do not multiply");
    require(k_.ranges[2].extent.is_constant() && provably_divisible(k_.ranges[2].extent, product_piece(element)) &&
                shared_bytes(k_) <= kMostShared,
            "slices that cannot be copied");
    for (const ProductSum& s : sums)
      for (const Ref r : loads_of(s)) {
        const Instr& i = k_.instrs[r];
        const KernelBuffer& b = k_.buffers[static_cast<size_t>(i.buffer)];
        require(!b.written && b.alignment >= kProductPieceBytes &&
                    provably_divisible(i.index - k_.ranges[2].var, product_piece(element)),
                "instruction {} is not copied in pieces of {} bytes", r, kProductPieceBytes);
      }
    for (const Stage& s : k_.stages)
      for (const Ref r : s.body)
        require(s.loop || (k_.instrs[r].kind != InstrKind::StoreAdd && k_.instrs[r].kind != InstrKind::Indirect),
                "instruction {} after a product", r);
  }

  void registers() const {
    const RegisterTile& t = k_.registers;
    require(k_.threads.block == 0 && k_.vector > 0 && k_.lanes > 1 && !k_.serial && k_.row_slots.empty() &&
                k_.tile.rows == 0 && k_.ahead.loads.empty(),
            "a product in registers of another schedule");
    require(register_sum(k_).has_value(), "a product without one sum of products of a row and a column");
    require(t.rows > 0 && is_positive(t.row_block) && provably_divisible(t.row_block, t.rows),
            "blocks of {} rows in tiles of {}", to_string(t.row_block), t.rows);
    require(t.columns > 0 && t.columns % k_.lanes == 0 && provably_divisible(k_.block, t.columns),
            "blocks of {} columns in tiles of {}", to_string(k_.block), t.columns);
    require(t.depth > 0 || t.rows * (t.columns / k_.lanes) <= kMostRegisterSums, "{} by {} sums in registers", t.rows,
            t.columns);
    require(is_positive(t.slice), "slices of {}", to_string(t.slice));
    require((!t.packs_rows && !t.packs_columns) ||
                (t.row_block.is_constant() && t.slice.is_constant() && provably_divisible(t.slice, k_.lanes)),
            "slices of {} that are packed", to_string(t.slice));
    const RegisterSum sum = *register_sum(k_);
    require(!t.pairs || sum.of_bf16, "pairs of operands that are not BF16");
    require(provably_divisible(t.slice, t.elements_of_step()), "slices of {} in pairs", to_string(t.slice));
    require(!ends_in_half_step(k_) ||
                (k_.ranges.back().extent.is_constant() &&
                 k_.ranges[static_cast<size_t>(k_.vector)].var == k_.ranges[k_.ranges.size() - 2].var),
            "rows of a window, of {} elements, in pairs", to_string(k_.ranges.back().extent));
    if (t.depth != 0) matrices(sum);
    require(t.packs_rows || reads_rows_in_place(k_, sum), "rows that cannot be read where they are");
    require(t.packs_columns || reads_columns_in_place(k_, sum), "columns that cannot be read where they are");
    for (const Instr& i : k_.instrs)
      require(i.kind != InstrKind::StoreAdd && i.kind != InstrKind::Indirect && i.kind != InstrKind::Scan,
              "an instruction that a product does not have");
  }

  void matrices(const RegisterSum& sum) const {
    const RegisterTile& t = k_.registers;
    require(t.pairs && k_.lanes == kMatrixColumns, "matrices of other operands than pairs of BF16");
    require(t.depth > 0 && t.depth <= kMatrixRows, "{} steps of an instruction", t.depth);
    require(t.rows % kMatrixRows == 0 && t.rows <= kMostMatrices * kMatrixRows && t.columns % kMatrixColumns == 0 &&
                t.columns <= kMostMatrices * kMatrixColumns,
            "{} by {} sums in registers for matrices", t.rows, t.columns);
    require(provably_divisible(t.slice, t.depth * t.elements_of_step()) || has_one_slice(k_),
            "slices of {} in instructions of {} steps", to_string(t.slice), t.depth);
    require(t.packs_rows || !matrices_need_packed_rows(k_, sum), "rows of matrices that cannot be read where they are");
  }

  // The range of the lanes, or of neighbouring threads.
  std::ptrdiff_t columns() const {
    return k_.threads.block > 0 ? static_cast<std::ptrdiff_t>(k_.ranges.size()) - 1 : k_.vector;
  }

  // The range with this variable, which is a parallel range before the one of the lanes.
  const Range& row_of(Expr var) const {
    auto it = std::find_if(k_.ranges.begin(), k_.ranges.end(), [&](const Range& r) { return r.var == var; });
    const bool other = it != k_.ranges.end() && it - k_.ranges.begin() < columns() && it->kind == RangeKind::Parallel;
    require(other, "rows of other loads do not run along a parallel range before the lanes");
    return *it;
  }

  void plain_load(Ref r) const {
    require(r < k_.instrs.size() && stage_of_[r] >= 0 && k_.instrs[r].kind == InstrKind::Load &&
                k_.instrs[r].in[0] == kNoRef,
            "instruction {} is no load of every element", r);
  }

  void tile() const {
    const Tile& t = k_.tile;
    const Range& rows = row_of(t.row);
    const Range& columns = k_.ranges[static_cast<size_t>(this->columns())];
    require(columns.kind == RangeKind::Parallel && &rows + 1 == &columns && !k_.serial, "a tile is not of neighbours");
    require(std::none_of(k_.stages.begin(), k_.stages.end(), [](const Stage& s) { return s.loop; }),
            "a tile in a kernel with loops");
    if (k_.threads.block > 0 && t.lies_together()) {
      const int64_t each = k_.threads.each;
      require(t.rows % 2 == 1 && rows.extent.is_constant(t.rows), "a tile of {} of {} rows lies together", t.rows,
              to_string(rows.extent));
      require(t.columns > 0 && t.columns % each == 0 && t.rows * t.columns <= 16 * k_.threads.block * each &&
                  provably_divisible(columns.extent, each),
              "{} threads for a tile of {} by {}, {} each", k_.threads.block, t.rows, t.columns, each);
      for (const Ref r : t.loads) {
        const auto step = coefficient_of(k_.instrs[r].index, columns.var);
        require(step && step->is_constant(t.rows), "columns of instruction {} do not lie together", r);
      }
    } else if (k_.threads.block > 0) {
      const int64_t each = k_.threads.each;
      require(t.rows > 0 && t.columns > 0 && t.rows * t.columns % (k_.threads.block * each) == 0 &&
                  t.rows * t.columns <= 16 * k_.threads.block && t.rows % each == 0 && t.columns % each == 0 &&
                  provably_divisible(rows.extent, each),
              "{} threads for a tile of {} by {}, {} each", k_.threads.block, t.rows, t.columns, each);
      require(t.pitch > t.rows, "columns of a tile overlap");
    } else {
      require(provably_at_least(k_.block, columns.extent), "a tile in a kernel of several blocks");
      auto cuts = [&](Expr extent, int64_t side) {
        return side > 0 && side % k_.lanes == 0 && provably_divisible(extent, side);
      };
      require(cuts(rows.extent, t.rows) && cuts(columns.extent, t.columns), "tiles of {} by {} leave something over",
              t.rows, t.columns);
      require(t.pitch >= t.columns, "rows of a tile overlap");
    }
    require(!t.loads.empty(), "a tile of nothing");
    for (Ref r : t.loads) {
      plain_load(r);
      const auto along = coefficient_of(k_.instrs[r].index, t.row);
      require(along && along->is_constant(1), "instruction {} does not run along the rows of its tile", r);
      require(!k_.buffers[static_cast<size_t>(k_.instrs[r].buffer)].written,
              "instruction {} of a tile reads what is written", r);
    }
  }

  void online() const {
    require(k_.threads.block > 0, "online sums without threads");
    const std::vector<Online> all = online_sums(k_);
    for (const Online& o : k_.online)
      require(std::find(all.begin(), all.end(), o) != all.end(),
              "the sum {} is not relative to the reduction {}, or not alone in its loop", o.sum, o.first);
    // A loop that is computed online is left out as a whole.
    for (const Online& a : all) {
      const auto named = [&](const Online& o) { return stage_of_[o.sum] == stage_of_[a.sum]; };
      const auto itself = [&](const Online& o) { return o.sum == a.sum; };
      require(std::none_of(k_.online.begin(), k_.online.end(), named) ||
                  std::any_of(k_.online.begin(), k_.online.end(), itself),
              "the sum {} has no loop", a.sum);
    }
  }

  void ahead() const {
    row_of(k_.ahead.row);
    require(k_.ahead.rows > 0, "rows fetched ahead are these ones");
    for (Ref r : k_.ahead.loads) plain_load(r);
  }

  std::string text() const override { return print(k_); }
  size_t buffer_count() const override { return k_.buffers.size(); }
  KernelBuffer buffer(size_t b) const override { return k_.buffers[b]; }
  bool in_loop() const override { return k_.stages[static_cast<size_t>(stage_)].loop; }

  bool is_size(Expr symbol) const override {
    return std::find(k_.sizes.begin(), k_.sizes.end(), symbol) != k_.sizes.end();
  }

  bool visible(Ref r) const override {
    if (r >= k_.instrs.size() || stage_of_[r] < 0) return false;
    if (stage_of_[r] == stage_) return true;
    InstrKind kind = k_.instrs[r].kind;
    return kind == InstrKind::Result || kind == InstrKind::Constant ||
           !k_.stages[static_cast<size_t>(stage_of_[r])].loop;
  }

  void access(const Instr& i) const override {
    const bool streams = k_.buffers[static_cast<size_t>(i.buffer)].stream;
    require(!streams || i.kind == InstrKind::Store, "instruction {} reads a buffer that is stored past the caches",
            ref_);
  }

  void result(const Instr& i) const override {
    bool earlier = i.in[0] < k_.instrs.size() && stage_of_[i.in[0]] >= 0 && stage_of_[i.in[0]] < stage_ &&
                   k_.instrs[i.in[0]].kind == InstrKind::Accumulate;
    require(earlier, "result {} does not name an accumulation of an earlier stage", ref_);
    require(i.imm == 1 || i.dtype == k_.instrs[i.in[0]].dtype, "result {} has another type than its accumulation",
            ref_);
  }

  void row(const Instr& i) const override {
    require(in_loop(), "row access {} outside a loop stage", ref_);
    require(i.slot >= 0 && i.slot < static_cast<int>(k_.row_slots.size()), "instruction {} has no row", ref_);
    require(k_.row_slots[static_cast<size_t>(i.slot)] == i.dtype, "instruction {} has another type than its row", ref_);
    if (i.kind == InstrKind::RowStore)
      require(same_or_widened(operand(i, 0), i.dtype), "rowstore {} changes the type", ref_);
  }

  const Kernel& k_;
  std::vector<int> stage_of_;
  int stage_ = 0;
};

}  // namespace

void verify(const Kernel& k) { Verifier(k).run(); }

}  // namespace vesta::loops
