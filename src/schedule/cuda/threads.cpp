#include "schedule/cuda/threads.h"

#include <algorithm>
#include <bit>

#include "loops/lower.h"
#include "schedule/family.h"
#include "schedule/loop_nest.h"

namespace vesta::schedule {

using loops::Dag;
using loops::Instr;
using loops::InstrKind;

namespace {

constexpr int64_t kBlock = 256;
constexpr int64_t kWarp = 32;
constexpr int64_t kMostThreads = 1024;
constexpr int64_t kWideBytes = 16;            // of one access of one thread
constexpr int64_t kMostEach = 8;              // elements of it
constexpr int64_t kMostHeld = 32;             // elements of a row in the registers of one thread
constexpr int64_t kHeldBytes = 192;           // of all rows together, in the registers of one thread, of 255
constexpr int64_t kFullBlockHeldBytes = 144;  // the same where 1024 threads share a multiprocessor's: of 64
constexpr int64_t kThreadRow = 16;            // elements of a row that a thread should have, where there are enough
constexpr int64_t kWarpRow = 1024;            // longer rows are a whole block's
constexpr int64_t kSector = 128;              // bytes of memory that neighbouring threads should read together
constexpr double kLaunchMicroseconds = 2;

class Chooser : LoopNest {
 public:
  Chooser(Dag& dag, const Options& options) : LoopNest(dag), options_(options) {}

  CudaSchedule run() {
    refuse();
    drop_ones();
    split_ranges(dag_);
    read_accesses();
    order();
    merge_ranges(dag_);
    read_accesses();
    choose_team();
    estimate();
    return std::move(out_);
  }

 private:
  void refuse() const {
    if (dag_.in_order()) throw loops::CannotFuse("its elements are written in an order");
    for (const Instr& i : dag_.instrs()) {
      if (i.kind == InstrKind::Scan) throw loops::CannotFuse("a scan");
      if (i.kind == InstrKind::StoreAdd) throw loops::CannotFuse("additions to shared places");
    }
  }

  // Whether neighbours along an Inner range are neighbours in memory more often than those along a Parallel one.
  bool runs_along_rows() const {
    double along = 0, across = 0;
    for (const Access& a : accesses_)
      for (size_t d = 0; d < ranges_.size(); ++d)
        if (a.strides[d] && std::abs(*a.strides[d]) == 1) (inner(d) ? along : across) += a.trips;
    return along >= across;
  }

  void choose_team() {
    Expr items = 1;
    int64_t rows = 1, length = 1;
    bool has_inner = false;
    for (size_t d = 0; d < ranges_.size(); ++d) {
      if (!inner(d)) items = items * ranges_[d].extent;
      (inner(d) ? length : rows) *= extent(d);
      has_inner |= inner(d);
    }
    out_.items = items;
    out_.threads.block = kBlock;
    out_.row_bytes = 0;
    if (!has_inner) {
      out_.threads.each = neighbours(rows / (kBlock * options_.target.threads));
    } else if (runs_along_rows()) {
      along_rows(rows, length);
    } else {
      across_rows(length);
    }
  }

  // How many neighbours along the last range one thread takes: what lies side by side makes one access of 16 bytes.
  int64_t neighbours(int64_t most) const {
    const Expr last = ranges_.back().extent;
    int64_t bytes = kWideBytes;
    for (const Access& a : accesses_)
      if (a.strides.back() && *a.strides.back() == 1) bytes = std::min(bytes, a.bytes);
    int64_t each = std::min({kWideBytes / bytes, kMostEach, most});
    each = each < 1 ? 1 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(each)));
    while (each > 1 && !provably_divisible(last, each)) each /= 2;
    return each;
  }

  void along_rows(int64_t rows, int64_t length) {
    loops::Threads& t = out_.threads;
    t.each = neighbours(std::max<int64_t>(1, length / kWarp));
    const int64_t units = (length + t.each - 1) / t.each;
    const auto up = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
    const bool few = rows < 2 * options_.target.threads && length > kBlock;
    if (length > kWarpRow || few) {
      t.block = t.team = std::clamp<int64_t>(up(length / kThreadRow), kWarp * 2, kMostThreads);
      while (t.team > kWarp * 2 && t.team / 2 >= units) t.block = t.team /= 2;
    } else {
      t.team = std::min<int64_t>(kWarp, up(units));
    }
    Expr row = 1;
    for (const loops::Range& r : ranges_)
      if (r.kind == loops::RangeKind::Inner) row = row * r.extent;
    if (!row.is_constant()) return;
    const int64_t round = t.team * t.each, rounds = (row.constant() + round - 1) / round;
    if (rounds * t.each > kMostHeld) return;
    t.held = rounds;
    out_.row_bytes = row.constant() * (t.block == kMostThreads ? kFullBlockHeldBytes : kHeldBytes) / (rounds * t.each);
    out_.keep_cost = 2;  // a second read of memory costs more than a register
  }

  // Neighbouring items lie side by side: so do the threads that begin their rows, and others go on further down.
  void across_rows(int64_t length) {
    int64_t bytes = kWideBytes;
    for (const Access& a : accesses_) bytes = std::min(bytes, a.bytes);
    const int64_t items = std::max(kWarp, kSector / std::max<int64_t>(1, bytes));
    const int64_t team = std::clamp<int64_t>(length / kThreadRow, 1, kMostThreads / items);
    if (team < 2) return;
    out_.threads.team = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(team)));
    out_.threads.block = items * out_.threads.team;
    out_.threads.across = true;
  }

  void estimate() {
    double bytes = 0;
    for (const Access& a : accesses_) bytes += a.trips * static_cast<double>(a.bytes);
    out_.bytes = static_cast<int64_t>(bytes);
    out_.us = kLaunchMicroseconds + bytes / options_.target.memory_bytes_per_ns / 1000;
  }

  const Options& options_;
  CudaSchedule out_;
};

}  // namespace

CudaSchedule choose_threads(Dag& dag, const Options& options) { return Chooser(dag, options).run(); }

void align_buffers(Staged& staged, const Dag& dag) {
  for (const loops::DagBuffer& from : dag.buffers()) {
    const auto it = std::find(staged.buffers.begin(), staged.buffers.end(), from.id);
    if (it == staged.buffers.end() || from.alignment < kWideBytes) continue;
    const auto b = static_cast<size_t>(it - staged.buffers.begin());
    const Expr start = staged.offsets[b] * element_size(from.dtype);
    if (provably_divisible(start, kWideBytes)) staged.kernel->buffers[b].alignment = kWideBytes;
  }
}

}  // namespace vesta::schedule
