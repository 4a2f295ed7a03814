#include "schedule/cuda/threads.h"

#include <algorithm>
#include <bit>

#include "loops/levels.h"
#include "loops/lower.h"
#include "loops/neighbours.h"
#include "loops/product.h"
#include "schedule/cpu_loops.h"
#include "schedule/cuda/products.h"
#include "schedule/loop_nest.h"

namespace vesta::schedule {

using loops::Dag;
using loops::Instr;
using loops::InstrKind;

namespace {

constexpr int64_t kBlock = 256;
// Of a kernel that reads nothing. On an H200, blocks of kBlock threads that store 16 bytes each end faster than new
// ones start: zeros for 131 MB take 39 us, and 29 us with blocks of twice as many threads.
constexpr int64_t kStoringBlock = 512;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kWideBytes = 16;       // bytes that one thread reads with one access
constexpr int64_t kMostHeldBytes = 128;  // of a row in the registers of one thread
constexpr int64_t kThreadRow = 16;       // elements of a row that a thread should have, where there are enough
constexpr int64_t kThreadWideRow = 32;   // the same of four bytes and more: fewer threads wait for each other
constexpr int64_t kWarpRow = 1024;       // longer rows are a whole block's, unless each is read once
constexpr int64_t kSumTeam = 128;        // threads for such a row: each has several loads under way
constexpr int64_t kBusyThreads = 768;    // of a multiprocessor, that keep its memory busy
constexpr int64_t kSector = 128;         // bytes of memory that neighbouring threads should read together
constexpr int64_t kLeastBytes = 32;      // what memory reads at least
constexpr int64_t kThreadRounds = 4;     // accesses of a thread to a short row
constexpr double kResults = 8;           // a kernel that reads so many elements for each stored one stores results only
constexpr int64_t kLongColumn = 64;      // elements of one that many threads scan
constexpr int64_t kSharedColumn = 48;    // elements of one that many threads share
constexpr int64_t kColumnElements = 8;   // of it, that a thread should have
constexpr int64_t kQuickElements = 4;    // of it, for each thread of a kernel with few threads
constexpr int64_t kQuickColumn = 4;      // elements that each thread reads, if there are few and short columns
constexpr int64_t kFewColumns = 512;     // threads of a block that share columns
constexpr int64_t kBank = 4;             // bytes of a bank of shared memory
constexpr int64_t kSharedBytes = 40 << 10;   // of a block's tiles
constexpr int64_t kScannedAlone = 16 << 10;  // elements of a row that one block scans as fast as many would
constexpr int64_t kShortSide = 8;            // of a tile that is worth its while
constexpr int64_t kPieceBytes = 16 << 10;    // of a tile that lies together, for each load
constexpr int64_t kStoredBytes = 8;  // of such a tile, by one thread: more threads share banks if it stores more
// On an H100, blocks that share rows take 1.1 us longer to start. One block adds up 192 KiB, or computes a softmax of
// 32 KiB, in about that time.
constexpr int64_t kOwnRow = 192 << 10;
constexpr int64_t kQuickRow = 32 << 10;
constexpr int64_t kPartElements = 2048;  // of a row that a block should have, where blocks share it
constexpr int64_t kQuickBytes = 32;      // of a row that each thread of few blocks should have
constexpr int64_t kScanned = 16;         // elements of a column that a thread scans in a round
constexpr int64_t kScannedBytes = 64;
constexpr int64_t kScanTeam = 16;  // threads that scan a column
constexpr double kLaunchMicroseconds = 2;

int64_t next_power_of_two(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

// Whether a load is worth reading through a tile: it is contiguous along `row` and strided along `column`.
bool crosses(Expr index, Expr row, Expr column) {
  const auto along_row = coefficient_of(index, row), along_column = coefficient_of(index, column);
  if (!along_row || !along_column || !along_row->is_constant(1)) return false;
  if (along_column->is_constant() && std::abs(along_column->constant()) <= 1) return false;
  for (Expr s : symbols_of(index - row - *along_column * column))
    if (s == row || s == column || s.node()->symbol_kind == SymbolKind::Indirect) return false;
  return true;
}

// Whether a load that crosses reads its columns one after another, each a row's whole extent of `rows` elements.
bool lies_together(Expr index, Expr column, int64_t rows) {
  const auto step = coefficient_of(index, column);
  return step && step->is_constant(rows);
}

// Whether it is an element in the CPU's memory, which a kernel gets as an argument.
bool is_value(const loops::DagBuffer& b) { return b.device == DeviceType::CPU; }
bool is_value(const Dag& dag, const Instr& load) { return is_value(dag.buffers()[static_cast<size_t>(load.buffer)]); }

class ThreadChooser : LoopNest {
 public:
  ThreadChooser(Dag& dag, const Options& options) : LoopNest(dag), options_(options) {}

  CudaSchedule run() {
    look();
    drop_ones();
    split_ranges(dag_);
    read_accesses();
    order(kResults);
    merge_ranges(dag_);
    read_accesses();
    if (const auto product = choose_product(dag_, options_.target)) {
      out_.product = *product;
      out_.threads.block = loops::kProductThreads;
      out_.threads.each = neighbours(1, kMostEach);
    } else {
      choose_tile();
      choose_team();
    }
    estimate();
    return std::move(out_);
  }

 private:
  void look() {
    if (dag_.in_order()) throw loops::CannotFuse("its elements are written in an order");
    const std::vector<char> live = loops::levels_of(dag_).live;
    for (loops::Ref r = 0; r < dag_.instrs().size(); ++r) {
      const Instr& i = dag_.instrs()[r];
      doubles_ |= live[r] && i.dtype == DType::F64 && !(i.kind == InstrKind::Load && is_value(dag_, i));
      scans_ |= i.kind == InstrKind::Scan;
      sums_ |= i.kind == InstrKind::Accumulate;
      adds_ |= i.kind == InstrKind::StoreAdd;
      gathers_ |= i.kind == InstrKind::Indirect;
    }
  }

  // Whether neighbours along an Inner range are adjacent in memory more often than neighbours along a Parallel range.
  bool runs_along_rows() const {
    double along = 0, across = 0;
    for (const Access& a : accesses_)
      for (size_t d = 0; d < ranges_.size(); ++d)
        if (a.strides[d] && std::abs(*a.strides[d]) == 1) (inner(d) ? along : across) += a.trips;
    return along >= across;
  }

  // If most loads are contiguous along another range than the stores, the kernel reads them through tiles. That range
  // then becomes the last but one.
  void choose_tile() {
    if (ranges_.size() < 2 || std::any_of(ranges_.begin(), ranges_.end(),
                                          [](const loops::Range& r) { return r.kind == loops::RangeKind::Inner; }))
      return;
    const size_t last = ranges_.size() - 1;
    double all = 0, most = 0;
    size_t row = last;
    int64_t bytes = 1;
    for (const Access& a : accesses_) all += a.trips * static_cast<double>(a.bytes);
    bool together = false;
    for (size_t d = 0; d < last; ++d) {
      double here = 0;
      int64_t widest = 1;
      bool all_together = ranges_[d].extent.is_constant() && extent(d) % 2 == 1;
      for (const Access& a : accesses_) {
        const Instr& i = dag_.instrs()[a.ref];
        if (a.store || i.in[0] != loops::kNoRef || dag_.buffers()[static_cast<size_t>(i.buffer)].written ||
            !crosses(i.index, ranges_[d].var, ranges_[last].var))
          continue;
        here += a.trips * static_cast<double>(a.bytes);
        widest = std::max(widest, a.bytes);
        all_together = all_together && lies_together(i.index, ranges_[last].var, extent(d));
      }
      if (here <= most) continue;
      most = here;
      row = d;
      bytes = widest;
      together = all_together;
    }
    if (row == last || most < all / 4 || extent(last) < kShortSide) return;
    const int64_t side = std::clamp<int64_t>(kSector / bytes, kWarp / 2, 2 * kWarp);
    if (const int64_t fits = kPieceBytes / (extent(row) * bytes); together && fits >= kWarp) {
      // Tiles of equal sizes, and of whole accesses where elements are two bytes.
      const int64_t columns = extent(last), tiles = (columns + fits - 1) / fits;
      out_.tile_rows = extent(row);
      out_.tile_columns = (columns + tiles - 1) / tiles / kWarp * kWarp;
      if (out_.tile_columns == 0 || columns % out_.tile_columns != 0) out_.tile_columns += kWarp;
    } else if (extent(row) >= kShortSide) {
      out_.tile_rows = std::min(side, next_power_of_two(extent(row)));
      out_.tile_columns = std::min(side, next_power_of_two(extent(last)));
    } else {
      return;
    }
    tile_bytes_ = bytes;
    std::rotate(ranges_.begin() + static_cast<std::ptrdiff_t>(row),
                ranges_.begin() + static_cast<std::ptrdiff_t>(row) + 1, ranges_.end() - 1);
    read_accesses();
  }

  void choose_team() {
    int64_t rows = 1, length = 1;
    bool has_inner = false;
    for (size_t d = 0; d < ranges_.size(); ++d) {
      (inner(d) ? length : rows) *= extent(d);
      has_inner |= inner(d);
    }
    out_.threads.block = kBlock;
    out_.row_bytes = 0;
    if (out_.tile_rows > 0) {
      const size_t last = ranges_.size() - 1;
      const int64_t elements = out_.tile_rows * out_.tile_columns;
      if (out_.tile_rows % 2 == 1) {
        out_.threads.each = neighbours(last, std::max<int64_t>(1, kStoredBytes / tile_bytes_));
        out_.threads.block = std::min(kBlock, next_power_of_two(elements / out_.threads.each));
        return;
      }
      out_.threads.block = std::min(kBlock, elements);
      const int64_t most = std::min({elements / out_.threads.block, out_.tile_rows, out_.tile_columns});
      out_.threads.each = std::min(neighbours(last - 1, most), neighbours(last, most));
    } else if (!has_inner) {
      out_.threads.each = neighbours(ranges_.size() - 1, rows / (kBlock * options_.target.threads));
      while (out_.threads.each > 1 && !adds_together(out_.threads.each)) out_.threads.each /= 2;
      const bool reads = std::any_of(accesses_.begin(), accesses_.end(), [](const Access& a) { return !a.store; });
      if (!reads && rows > out_.threads.each * kStoringBlock * options_.target.threads)
        out_.threads.block = kStoringBlock;
    } else if (scans_) {
      along_scan(rows, length);
    } else if (runs_along_rows()) {
      along_rows(rows, length);
    } else {
      across_rows(rows, length);
    }
  }

  // How many neighbours along range d one thread computes: adjacent elements become one access of 16 bytes.
  int64_t neighbours(size_t d, int64_t most) const {
    int64_t bytes = kWideBytes;
    for (const Access& a : accesses_)
      if (a.strides[d] && *a.strides[d] == 1) bytes = std::min(bytes, a.bytes);
    int64_t each = std::min({kWideBytes / bytes, kMostEach, most});
    each = each < 1 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(each)));
    while (each > 1 && !provably_divisible(ranges_[d].extent, each)) each /= 2;
    return each;
  }

  // Whether additions of this many neighbours are one instruction. Otherwise each thread has one, so that additions of
  // neighbouring threads are adjacent.
  bool adds_together(int64_t each) const {
    if (!adds_) return true;
    const std::string& gpu = options_.target.cpu;  // "sm_90" is the first GPU with such instructions
    if (gpu.size() == 5 && gpu < "sm_90") return false;
    const Expr last = ranges_.back().var;
    return std::all_of(accesses_.begin(), accesses_.end(), [&](const Access& a) {
      const Instr& i = dag_.instrs()[a.ref];
      return i.kind != InstrKind::StoreAdd ||
             (i.dtype == DType::F32 && a.strides.back() == 1 && provably_divisible(i.index - last, each) &&
              dag_.buffers()[static_cast<size_t>(i.buffer)].alignment >= each * a.bytes);
    });
  }

  // Bytes of the narrowest elements that are read along rows: a lower bound of a row's size.
  int64_t narrowest() const {
    int64_t bytes = 8;
    for (const Access& a : accesses_)
      for (size_t d = 0; d < ranges_.size(); ++d)
        if (!a.store && inner(d) && a.strides[d].value_or(0) != 0) bytes = std::min(bytes, a.bytes);
    return bytes;
  }

  // Bytes of an element of a row that must be kept so that nothing is read again: of all that is read along rows, or of
  // one value that is computed from it.
  int64_t kept() const {
    int64_t bytes = 0;
    std::vector<std::pair<int, Expr>> seen;
    for (const Access& a : accesses_) {
      const Instr& i = dag_.instrs()[a.ref];
      bool whole = true;  // it differs along all inner ranges
      for (size_t d = 0; d < ranges_.size(); ++d) whole &= !inner(d) || extent(d) == 1 || a.strides[d].value_or(1) != 0;
      if (a.store || !whole || std::find(seen.begin(), seen.end(), std::pair(i.buffer, i.index)) != seen.end())
        continue;
      seen.emplace_back(i.buffer, i.index);
      bytes += a.bytes;
    }
    return std::max(narrowest(), std::min<int64_t>(bytes, doubles_ ? 8 : 4));
  }

  void along_rows(int64_t rows, int64_t length) {
    loops::Threads& t = out_.threads;
    const size_t last = ranges_.size() - 1;
    t.each = neighbours(last, std::max<int64_t>(1, length / kWarp));
    const int64_t nodes = (length + t.each - 1) / t.each;
    const bool few = rows < 2 * options_.target.threads && length > kBlock;
    out_.once = t;
    if (length > kWarpRow || few) add_up_rows(rows, length, few);
    if ((length > kWarpRow || few) && reads_rows_once()) {
      t = out_.once;
      return;
    }
    if (length > kWarpRow || few) {
      t.parts = parts_of_rows(rows, length);
      const int64_t bytes = narrowest();
      // Few blocks: what counts is how long one takes. Its threads have few elements each.
      const bool quick = t.parts > 1 && rows * t.parts <= options_.target.threads;
      const int64_t share = quick ? kQuickBytes / bytes : bytes < 4 ? kThreadRow : kThreadWideRow;
      const int64_t most = quick || doubles_ ? kMostThreads / 2 : kMostThreads;
      take_row(t, length, nodes, share, most);
      // Many blocks: one computes while others wait for memory.
      const int64_t part = (length + t.parts - 1) / t.parts * kept();
      if (rows * t.parts > options_.target.threads && t.block > kBlock && part <= third() &&
          row_extent().is_constant()) {
        t.block = t.team = kBlock;
        t.shared = true;
      }
    } else {
      t.team = std::min<int64_t>(kWarp, next_power_of_two(nodes));
      if (length <= kWarpRow && reads_rows_once()) share_short_rows(rows, length);
      t.block = std::clamp<int64_t>(next_power_of_two(std::max<int64_t>(1, rows) * t.team), kWarp, kBlock);
      out_.once = t;
    }
    keep_rows();
  }

  // Shared memory of each of three blocks of a multiprocessor.
  int64_t third() const { return options_.target.l1_bytes / 3 - kOwnShared; }

  // Threads for rows that are read once.
  void add_up_rows(int64_t rows, int64_t length, bool few) {
    loops::Threads& t = out_.once;
    const int64_t nodes = (length + t.each - 1) / t.each;
    if (!few) {
      const int64_t wanted = std::max(kSumTeam, next_power_of_two(kBusyThreads * options_.target.threads / rows));
      t.block = t.team = std::clamp<int64_t>(next_power_of_two(nodes / 2), kWarp, std::min(wanted, kMostThreads));
      return;
    }
    const int64_t bytes = narrowest();
    if (length * bytes > kOwnRow) t.parts = parts_for(rows, length);
    const int64_t most = doubles_ || t.parts > 1 ? kMostThreads / 2 : kMostThreads;
    const bool quick = rows * t.parts <= options_.target.threads;  // what counts is how long one block takes
    const int64_t share = quick ? kQuickBytes / bytes : bytes < 4 || t.parts > 1 ? kThreadRow : kThreadWideRow;
    take_row(t, length, nodes, share, most);
  }

  // A block of at most `most` threads takes a row, or a part of it: `share` elements a thread, which reads several at
  // once. The row has `nodes` such accesses.
  static void take_row(loops::Threads& t, int64_t length, int64_t nodes, int64_t share, int64_t most) {
    t.block = t.team = std::clamp<int64_t>(next_power_of_two(length / t.parts / share), kWarp * 2, most);
    while (t.team > kWarp * 2 && t.team * t.parts / 2 >= nodes) t.block = t.team /= 2;
  }

  // Blocks of a row that keep all multiprocessors busy.
  int64_t parts_for(int64_t rows, int64_t length) const {
    int64_t parts = 1;
    if (!shares_rows(options_.target) || !sums_) return parts;
    while (parts < kMostParts && rows * parts * 2 <= options_.target.threads && length >= 2 * parts * kPartElements)
      parts *= 2;
    return parts;
  }
  // Neighbouring blocks share rows that are too long for one of three blocks of a multiprocessor, and rows that are
  // fewer than the multiprocessors, unless a block takes no longer than the blocks take to start together.
  int64_t parts_of_rows(int64_t rows, int64_t length) const {
    if (!shares_rows(options_.target) || !sums_) return 1;
    int64_t parts = length * narrowest() > kQuickRow ? parts_for(rows, length) : 1;
    while (parts < kMostParts && length * kept() > third() * parts) parts *= 2;
    return parts;
  }

  // A warp scans each row, or a block where the row is long or there are few. A thread scans each column, so that
  // neighbouring threads read neighbours.
  void along_scan(int64_t rows, int64_t length) {
    const auto inner_ranges = std::count_if(ranges_.begin(), ranges_.end(),
                                            [](const loops::Range& r) { return r.kind == loops::RangeKind::Inner; });
    // A thread past the end of a row would read elements that other threads may have overwritten, so it has no element.
    const bool replaces = std::any_of(dag_.instrs().begin(), dag_.instrs().end(), [&](const Instr& i) {
      return i.kind == InstrKind::Load && dag_.buffers()[static_cast<size_t>(i.buffer)].written;
    });
    if (gathers_ && replaces) throw loops::CannotFuse("a scan that replaces what it reads, and reads at places");
    if (inner_ranges != 1) throw loops::CannotFuse("a scan of elements that are no row");
    if (rows == 1 && length > kScannedAlone) throw loops::CannotFuse("a scan of one long row, which many blocks share");
    if (!runs_along_rows()) return scan_columns(rows, length);
    loops::Threads& t = out_.threads;
    t.each = neighbours(ranges_.size() - 1, std::max<int64_t>(1, length / kWarp));
    const int64_t nodes = (length + t.each - 1) / t.each;
    if (length > kWarpRow || (rows < 2 * options_.target.threads && length > kBlock)) {
      t.block = t.team = std::clamp<int64_t>(next_power_of_two(nodes), kWarp * 2, kBlock);
    } else {
      t.team = std::min<int64_t>(kWarp, next_power_of_two(nodes));
    }
    keep_rows();
  }

  // Many threads scan a column where there are too few columns for one thread each.
  void scan_columns(int64_t rows, int64_t length) {
    const int64_t busy = options_.target.threads;
    if (rows >= kBusyThreads * busy || length < kLongColumn) return;
    int64_t widest = 1;
    for (const Access& a : accesses_) widest = std::max(widest, a.bytes);
    int64_t each = std::min(kScanned, kScannedBytes / widest);
    int64_t columns = kWarp;
    while (columns > 1 && columns * widest > kLeastBytes && rows / columns < busy * 3 / 2) columns /= 2;
    while (each > 1 && !provably_divisible(ranges_.back().extent, each)) each /= 2;
    const auto team = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(length / each)));
    out_.threads.each = each;
    const int64_t most = rows / columns < busy / 2 ? 2 * kScanTeam : kScanTeam;
    out_.threads.team = std::clamp<int64_t>(team, kWarp / columns, most);
    out_.threads.block = columns * out_.threads.team;
    out_.threads.across = true;
  }

  Expr row_extent() const {
    Expr row = 1;
    for (const loops::Range& r : ranges_)
      if (r.kind == loops::RangeKind::Inner) row = row * r.extent;
    return row;
  }

  void keep_rows() {
    if (const Expr row = row_extent(); row.is_constant()) keep_rows(row.constant());
  }

  // For sums of short rows, with more rows than keep the memory busy: fewer threads per row exchange less, and each
  // access is as wide as possible.
  void share_short_rows(int64_t rows, int64_t length) {
    loops::Threads& t = out_.threads;
    const int64_t busy = kBusyThreads * options_.target.threads, widest = neighbours(ranges_.size() - 1, kMostEach);
    const auto fits = [&](int64_t team, int64_t each) {
      return rows * team >= busy && length <= team * each * kThreadRounds;
    };
    while (t.each < widest && t.team > 1 && fits(t.team / 2, t.each * 2)) t.team /= 2, t.each *= 2;
    while (t.team > kSector / kWideBytes && fits(t.team / 2, t.each)) t.team /= 2;
  }

  // Whether no element of a row is needed again when its sum is complete.
  bool reads_rows_once() const {
    const loops::Levels levels = loops::levels_of(dag_);
    return levels.last == 1 && std::all_of(levels.roots.begin(), levels.roots.end(), [&](loops::Ref r) {
             return dag_.instrs()[r].kind == InstrKind::Accumulate || !levels.inner[r];
           });
  }

  // The same, where the loop of the sum may also store elements.
  bool has_one_loop() const {
    const loops::Levels levels = loops::levels_of(dag_);
    return levels.last == 1 &&
           std::all_of(levels.roots.begin(), levels.roots.end(), [&](loops::Ref r) { return levels.level[r] == 0; });
  }

  // Keeps rows of this many elements in registers or in shared memory. Where there is room, a multiprocessor runs two
  // blocks: one computes while the other waits for memory.
  void keep_rows(int64_t length) {
    loops::Threads& t = out_.threads;
    const int64_t bytes = narrowest(), each = t.team * t.parts * t.each,
                  rounds = std::max<int64_t>(1, (length + each - 1) / each);
    const int64_t most_shared = options_.target.l1_bytes - kOwnShared, half = options_.target.l1_bytes / 2 - kOwnShared;
    const int64_t part = (length + t.parts - 1) / t.parts * bytes;  // of the row, in bytes, that a block keeps
    if (t.shared) {
      out_.row_bytes = third() * t.parts;
    } else if (t.block == kMostThreads && part <= most_shared) {
      if (part <= half) t.block = t.team = kMostThreads / 2;
      t.shared = true;
      out_.row_bytes = (part <= half ? half : most_shared) * t.parts;
    } else if (rounds * t.each <= (doubles_ ? kMostHeldBytes / 2 : kMostHeldBytes) / std::clamp<int64_t>(bytes, 4, 8)) {
      t.held = rounds;
      const int64_t most = t.block >= kMostThreads / 2 && !doubles_ ? kFullHeldBytes : kHeldBytes;
      out_.row_bytes = length * most / (rounds * t.each);
    } else if (t.block == t.team && part <= most_shared) {
      t.shared = true;
      out_.row_bytes = (part <= half ? half : most_shared) * t.parts;
    } else {
      return;
    }
    out_.keep_cost = 4;       // as many instructions cost more than registers
    out_.keep_narrow = true;  // another read of memory costs more
  }

  // Neighbouring work items are adjacent in memory, so the threads that begin their rows are neighbours, and other
  // threads continue further down the rows.
  void across_rows(int64_t rows, int64_t length) {
    int64_t bytes = kWideBytes;
    for (const Access& a : accesses_) bytes = std::min(bytes, a.bytes);
    const int64_t items = std::max(kWarp, kSector / std::max<int64_t>(1, bytes));
    const bool few = rows < items * options_.target.threads;
    const bool one_loop = has_one_loop();
    if (few || one_loop) {
      if (share_columns(out_.threads, rows, length, few, one_loop)) return;
    } else {
      loops::Threads once = out_.threads;
      if (share_columns(once, rows, length, few, one_loop)) out_.once = once;
    }
    // For few columns, what counts is how long one thread takes.
    const int64_t team = std::clamp<int64_t>(length / (few ? kQuickColumn : kThreadRow), 1, kMostThreads / items);
    if (team < 2) return;
    out_.threads.team = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(team)));
    out_.threads.block = items * out_.threads.team;
    out_.threads.across = true;
  }

  // Lets many threads share each column, and gives a block as few columns as memory reads at once. A thread reads
  // several neighbouring columns with one access where their addresses are aligned; without that, false unless the
  // columns are too few (`few`) to keep every multiprocessor busy with one thread each.
  bool share_columns(loops::Threads& t, int64_t rows, int64_t length, bool few, bool one_loop) const {
    const auto inner = [](const loops::Range& r) { return r.kind == loops::RangeKind::Inner; };
    const auto first = std::find_if(ranges_.begin(), ranges_.end(), inner);
    if (first == ranges_.begin() || length < kSharedColumn) return false;
    const auto column = static_cast<size_t>(first - ranges_.begin()) - 1;
    int64_t widest = 0, each = neighbours(column, kMostEach);
    const std::vector<char> differs = loops::differing(dag_.instrs(), ranges_[column].var, each);
    for (const Access& a : accesses_) {
      if (!a.strides[column] || *a.strides[column] != 1) continue;
      if (runs_down(a)) widest = std::max(widest, a.bytes);
      const Instr& i = dag_.instrs()[a.ref];
      const loops::Ref mask = i.in[a.store ? 1 : 0];
      const bool masked = mask != loops::kNoRef && (a.store || differs[mask]);
      const bool aligned = dag_.buffers()[static_cast<size_t>(i.buffer)].alignment >= kWideBytes &&
                           provably_divisible(i.index - ranges_[column].var, each);
      if (masked || !aligned) each = 1;
    }
    if (widest == 0 || (!few && each == 1)) return false;
    const auto wanted = options_.target.threads * 3 / 4;
    int64_t teams = std::clamp<int64_t>(kSector / (each * widest), 1, kWarp);
    while (teams > 1 && teams * each * widest > kLeastBytes && rows / (each * teams) < wanted) teams /= 2;
    // If there are few threads, each gets few elements. This does not pay for variances, because threads exchange three
    // values for each column.
    const int64_t least = one_loop ? kQuickElements : kColumnElements;
    int64_t elements = kColumnElements;
    while (elements > least && rows / each * length / elements < kBusyThreads * options_.target.threads) elements /= 2;
    const int64_t blocks = rows / (each * teams);
    const int64_t most = 2 * blocks >= 3 * options_.target.threads ? kFewColumns / 2 : kFewColumns;
    const auto threads = static_cast<uint64_t>(std::min(length / elements, most / teams));
    t.each = each;
    t.team = std::max(kWarp / teams, static_cast<int64_t>(std::bit_floor(threads)));
    t.block = teams * t.team;
    t.across = true;
    return true;
  }

  // Whether the access touches another address for each element of a column.
  bool runs_down(const Access& a) const {
    for (size_t d = 0; d < ranges_.size(); ++d)
      if (inner(d) && a.strides[d].value_or(1) != 0) return true;
    return false;
  }

  void estimate() {
    double bytes = 0;
    for (const Access& a : accesses_) bytes += a.trips * static_cast<double>(a.bytes);
    out_.bytes = static_cast<int64_t>(bytes);
    out_.us = kLaunchMicroseconds + bytes / options_.target.memory_bytes_per_ns / 1000;
  }

  const Options& options_;
  int64_t tile_bytes_ = 0;  // of an element that is read through a tile
  bool doubles_ = false;    // computes in F64, which takes twice the registers
  bool scans_ = false, sums_ = false, gathers_ = false;
  bool adds_ = false;  // adds atomically to elements that an index tensor names
  CudaSchedule out_;
};

}  // namespace

bool shares_rows(const Target& target) {
  // "sm_90" is the first GPU with clusters.
  return target.device == DeviceType::CUDA && !(target.cpu.size() == 5 && target.cpu < "sm_90");
}

CudaSchedule choose_threads(Dag& dag, const Options& options) { return ThreadChooser(dag, options).run(); }

void read_through_tiles(loops::Kernel& k, int64_t rows, int64_t columns) {
  const Expr row = k.ranges[k.ranges.size() - 2].var, column = k.ranges.back().var;
  int64_t widest = 1, left = kSharedBytes;
  bool together = rows % 2 == 1;
  for (loops::Ref r = 0; r < k.instrs.size(); ++r) {
    const Instr& i = k.instrs[r];
    if (i.kind != InstrKind::Load || i.in[0] != loops::kNoRef || !crosses(i.index, row, column) ||
        k.buffers[static_cast<size_t>(i.buffer)].written)
      continue;
    const int64_t bytes = element_size(i.dtype);
    left -= (rows + kBank) * columns * bytes;
    if (left < 0) break;
    widest = std::max(widest, bytes);
    together = together && lies_together(i.index, column, rows);
    k.tile.loads.push_back(r);
  }
  k.tile.row = row;
  k.tile.rows = rows;
  k.tile.columns = columns;
  // The pitch puts the elements of a row in different banks.
  k.tile.pitch = together ? rows : rows + std::max<int64_t>(1, kBank / widest);
}

void describe_buffers(Staged& staged, const Dag& dag) {
  for (const loops::DagBuffer& from : dag.buffers()) {
    const auto it = std::find(staged.buffers.begin(), staged.buffers.end(), from.id);
    if (it == staged.buffers.end()) continue;
    const auto b = static_cast<size_t>(it - staged.buffers.begin());
    staged.kernel->buffers[b].value = is_value(from);
    staged.kernel->buffers[b].constant = from.constant && staged.kernel->product.rows > 0;
    if (from.alignment < kWideBytes) continue;
    const Expr start = staged.offsets[b] * element_size(from.dtype);
    if (provably_divisible(start, kWideBytes)) staged.kernel->buffers[b].alignment = kWideBytes;
  }
}

}  // namespace vesta::schedule
