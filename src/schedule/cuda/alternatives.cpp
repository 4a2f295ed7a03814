#include "schedule/cuda/alternatives.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "loops/product.h"
#include "schedule/cuda/products.h"
#include "schedule/cuda/threads.h"

namespace vesta::schedule {

using loops::Kernel;
using loops::Threads;

namespace {

constexpr size_t kMost = 12;
constexpr int64_t kMostCombined = 40 << 10;         // of the 48 KiB that a kernel has without a request
constexpr int64_t kAlternativePartElements = 4096;  // elements of a row for each block that shares the row

constexpr int64_t kBlocks[] = {64, 128, 256, 512, 1024};
constexpr int64_t kTeams[] = {4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr int64_t kSides[] = {16, 32, 64};  // sides of tiles

// How often one number must be doubled or halved to become the other.
double steps(int64_t a, int64_t b) { return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b))); }

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

class Lister {
 public:
  Lister(const Kernel& k, const Target& target) : k_(k), target_(target), own_(print(k)) {
    for (const loops::Instr& i : k.instrs) doubles_ |= i.dtype == DType::F64;
    for (const loops::Range& r : k.ranges) loops_ |= r.kind == loops::RangeKind::Inner;
  }

  std::vector<std::shared_ptr<const Kernel>> run() {
    if (k_.product.rows > 0) {
      products();
    } else if (k_.tile.rows > 0) {
      tiles();
    } else if (!loops_) {
      pointwise();
    } else if (k_.threads.across) {
      across();
    } else {
      along();
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.distance < b.distance; });
    if (found_.size() > kMost) found_.resize(kMost);
    std::vector<std::shared_ptr<const Kernel>> out;
    for (Found& f : found_) out.push_back(std::move(f.kernel));
    return out;
  }

 private:
  struct Found {
    double distance;
    std::shared_ptr<const Kernel> kernel;
  };

  void tiles() {
    const loops::Tile& own = k_.tile;
    const bool together = own.lies_together();
    const std::vector<int64_t> sides(std::begin(kSides), std::end(kSides));
    for (const int64_t block : {128, 256, 512})
      for (const int64_t rows : together ? std::vector{own.rows} : sides)
        for (const int64_t columns : together ? std::vector{own.columns / 2, own.columns, own.columns * 2} : sides) {
          Kernel k = k_;
          k.threads.block = block;
          k.tile = {};
          read_through_tiles(k, rows, columns);
          if (k.tile.loads == k_.tile.loads) add(std::move(k));
        }
  }

  void products() {
    const size_t sums = loops::product_sums(k_).size();
    for (const int64_t more : {-64, -32, -16, -8, 0, 8, 16, 32, 64})
      for (const int64_t parts : {1, 2}) {
        Kernel k = k_;
        k.product.columns += more;
        k.product.parts = parts;
        k.product = with_stages(k.product, sums, target_);
        if (k.product.columns > 0) add(std::move(k));
      }
  }

  void pointwise() {
    for (const int64_t block : kBlocks)
      for (int64_t each = 1; each <= kMostEach; each *= 2) {
        Threads t = k_.threads;
        t.block = block;
        t.each = each;
        add(t);
      }
  }

  void across() {
    for (const int64_t block : kBlocks)
      for (int64_t team = 1; team <= kWarp; team *= 2) {
        Threads t = k_.threads;
        t.block = block;
        t.team = team;
        if (combined_bytes(t) <= kMostCombined) add(t);
      }
  }

  // Shared memory through which the teams of a block combine their accumulators.
  int64_t combined_bytes(const Threads& t) const {
    const auto accumulators = std::count_if(k_.instrs.begin(), k_.instrs.end(), [](const loops::Instr& i) {
      return i.kind == loops::InstrKind::Accumulate;
    });
    const int64_t teams = t.block / t.team, parts = kWarp % teams == 0 ? t.block / kWarp : t.team;
    return parts * teams * t.each * accumulators * 2 * 8;
  }

  void along() {
    along_in_parts(k_.threads.parts);
    if (k_.threads.parts > 1) along_in_parts(k_.threads.parts / 2);
    const bool is_long = hint(loops::row_elements(k_)) >= 2 * k_.threads.parts * kAlternativePartElements;
    if (shares_rows(target_) && is_long && k_.threads.parts < kMostParts) along_in_parts(k_.threads.parts * 2);
  }

  void along_in_parts(int64_t parts) {
    for (const int64_t team : kTeams)
      for (const int64_t block : kBlocks)
        for (int64_t each = 1; each <= kMostEach; each *= 2) {
          if ((team > kWarp || parts > 1) && block != team) continue;
          Threads t = k_.threads;
          t.parts = parts;
          t.block = block;
          t.team = team;
          t.each = each;
          t.held = 0;
          t.shared = false;
          const Expr row = loops::row_elements(k_);
          // More threads than elements in the row would only wait.
          if (team > kWarp && hint(row) < team * parts * each) continue;
          if (k_.row_slots.empty()) {
            add(t);
            continue;
          }
          if (!row.is_constant()) continue;
          t.held = (row.constant() + team * parts * each - 1) / (team * parts * each);
          if (fits_registers(t)) add(t);
          t.held = 0;
          t.shared = true;
          add(t);
        }
  }

  bool fits_registers(const Threads& t) const {
    int64_t bytes = 0;
    for (const DType d : k_.row_slots)
      bytes += t.held * t.each * (is_half(d) ? 2 : std::max<int64_t>(4, element_size(d)));
    return bytes <= (t.block >= 512 && !doubles_ ? kFullHeldBytes : kHeldBytes);
  }

  void add(const Threads& threads) {
    Kernel k = k_;
    k.threads = threads;
    add(std::move(k));
  }

  void add(Kernel k) {
    if (shared_bytes(k) > target_.l1_bytes - kOwnShared) return;
    try {
      verify(k);
    } catch (const InternalError&) {
      return;  // this kernel has no schedule of this kind
    }
    if (print(k) == own_) return;
    const Threads &a = k_.threads, &b = k.threads;
    double distance = steps(a.block, b.block) / 2 + steps(a.each, b.each) + (a.shared != b.shared ? 0.25 : 0);
    // Where the team is the block, another block size is not a choice of its own.
    distance += a.team == a.block && b.team == b.block ? steps(a.team, b.team) / 2 : steps(a.team, b.team);
    distance += 1.5 * steps(a.parts, b.parts);
    distance += std::abs(static_cast<double>(k_.product.columns - k.product.columns)) / 16 +
                static_cast<double>(k_.product.parts != k.product.parts);
    if (k.tile.rows > 0) distance += steps(k_.tile.rows, k.tile.rows) + steps(k_.tile.columns, k.tile.columns);
    found_.push_back({distance, std::make_shared<const Kernel>(std::move(k))});
  }

  const Kernel& k_;
  const Target& target_;
  const std::string own_;
  bool doubles_ = false, loops_ = false;
  std::vector<Found> found_;
};

}  // namespace

std::vector<std::shared_ptr<const Kernel>> thread_alternatives(const Kernel& kernel, const Target& target) {
  return Lister(kernel, target).run();
}

}  // namespace vesta::schedule
