// The ranges are first split and unrolled, then ordered by the strides of their accesses (loop_nest.h). choose_vector()
// puts the range with the cheapest accesses last and makes the lanes run along it; a pointwise kernel is cut into
// tiles.
#include "schedule/cpu_loops.h"

#include <cmath>
#include <tuple>

#include "schedule/divisor.h"
#include "schedule/loop_nest.h"
#include "schedule/register_tiles.h"
#include "schedule/rows_apart.h"

namespace vesta::schedule {

using loops::Dag;
using loops::Instr;
using loops::InstrKind;
using loops::Range;
using loops::RangeKind;
using loops::Ref;

namespace {

constexpr int64_t kItemElements = 2048;       // of a pointwise work item
constexpr int64_t kSharedElements = 1 << 16;  // of columns that all threads share
constexpr int64_t kTransposeTile = 16;        // rows that share the cache lines of a gather
constexpr int64_t kUnrolled = 4;              // passes of a short loop
constexpr int64_t kMostUnrolled = 400;        // of the unrolled code; each instruction costs compile time
constexpr int64_t kRepeatedBytes = 16 << 10;  // that each step reads again
constexpr int64_t kLeastPart = 4;             // vectors
constexpr double kGather = 8;                 // the cost of a strided element; a contiguous one costs 1

class LoopChooser : LoopNest {
 public:
  LoopChooser(Dag& dag, const Options& options) : LoopNest(dag), options_(options) {}

  CpuSchedule run() {
    drop_ones();
    split_ranges(dag_);
    unroll();
    read_accesses();
    order();
    merge_ranges(dag_);
    read_accesses();
    if (const auto product = choose_registers(dag_, options_.target)) {
      use_registers(*product);
      return std::move(out_);
    }
    choose_vector();
    estimate();
    return std::move(out_);
  }

 private:
  // Unrolls short ranges whose variable selects the piece that an element comes from.
  void unroll() {
    for (size_t d = ranges_.size(); d-- > 0;) {
      const Range r = ranges_[d];
      if (ranges_.size() < 2 || inner(d) || !r.extent.is_constant() || r.extent.constant() > kUnrolled) continue;
      if (static_cast<int64_t>(dag_.instrs().size()) * r.extent.constant() > kMostUnrolled) continue;
      if (!dag_.chooses_by(r.var)) continue;
      dag_.unroll(d);
    }
  }

  bool has_inner() const {
    return std::ranges::any_of(ranges_, [](const Range& r) { return r.kind == RangeKind::Inner; });
  }

  int64_t lanes() const { return std::max<int64_t>(1, options_.target.vector_bytes / 4); }

  // The cost of an element if lanes run along range d.
  double vector_cost(size_t d) const {
    double total = 0, weight = 0;
    for (const Access& a : accesses_) {
      double w = a.trips;
      double c = kGather;
      if (a.strides[d]) {
        int64_t s = std::abs(*a.strides[d]);
        c = s == 0 ? 0.3 : s == 1 ? 1 : s == 2 ? 4 : kGather;
      }
      total += w * c;
      weight += w;
    }
    double e = static_cast<double>(extent(d)), l = static_cast<double>(lanes());
    double cost = (weight > 0 ? total / weight : 1) * std::ceil(e / l) * l / e;
    if (inner(d)) {
      double all = 1;
      for (size_t k = 0; k < ranges_.size(); ++k) all *= inner(k) ? static_cast<double>(extent(k)) : 1;
      cost += 16 / all;  // the horizontal combine of a row
    } else if (has_inner()) {
      cost *= 1.1;
    }
    return cost;
  }

  // Whether neighbours along an Inner range are adjacent in memory and neighbours along Parallel ranges are not.
  bool runs_along_rows() const {
    double along = 0, across = 0;
    for (const Access& a : accesses_) {
      for (size_t d = 0; d < ranges_.size(); ++d) {
        if (a.strides[d] && std::abs(*a.strides[d]) == 1) (inner(d) ? along : across) += a.trips;
      }
    }
    return along > across;
  }

  void use_registers(const RegisterChoice& choice) {
    const Range row = flatten_ranges(dag_, choice.rows), column = flatten_ranges(dag_, choice.columns);
    size_t at = 0;
    while (!inner(at)) ++at;
    ranges_.insert(ranges_.begin() + static_cast<int64_t>(at), {row, column});
    if (choice.inner.size() > 1) ranges_.push_back(flatten_ranges(dag_, choice.inner));
    out_.registers = choice.tile;
    out_.vector = static_cast<int>(at) + 1;
    out_.block = choice.block;
    out_.vector_bytes = options_.target.vector_bytes;
    out_.items = choice.items;
    out_.item_cost = choice.item_cost;
    for (const Access& a : accesses_) out_.bytes += static_cast<int64_t>(a.trips) * a.bytes;
    out_.us = choice.us;
  }

  void move_last(size_t d) {
    Range r = ranges_[d];
    ranges_.erase(ranges_.begin() + static_cast<int64_t>(d));
    size_t at = ranges_.size();
    if (r.kind == RangeKind::Parallel) {
      while (at > 0 && inner(at - 1)) --at;
    }
    ranges_.insert(ranges_.begin() + static_cast<int64_t>(at), r);
    vector_ = at;
    read_accesses();
  }

  void choose_vector() {
    size_t best = 0;
    double least = INFINITY;
    for (size_t d = 0; d < ranges_.size(); ++d) {
      if (dag_.in_order() && inner(d)) continue;
      double c = vector_cost(d) * (1 - 1e-6 * static_cast<double>(d));  // among equals the fastest range
      if (c < least) {
        least = c;
        best = d;
      }
    }
    const bool reduces = has_inner();
    if (dag_.in_order() && (least >= kGather || runs_along_rows())) {  // scalar code
      out_.items = 1;
      for (const Range& r : ranges_) {
        if (r.kind == RangeKind::Parallel) out_.items = out_.items * r.extent;
      }
      return;
    }
    const bool row = inner(best);
    if (!row && !reduces) tile(cut_repeated(best));
    move_last(row || reduces ? best : vector_);
    int64_t block = 0;
    if (!row) {
      int64_t e = extent(vector_), l = lanes();
      int64_t most = squares_ ? e : transposed_ ? 64 : reduces ? 8 * l : kItemElements;
      block = std::min((e + l - 1) / l * l, most);
      if (reduces) block = shared_columns(block);
      if (!ranges_[vector_].extent.is_constant()) block = std::max(block, std::min<int64_t>(most, 4 * l));
    }
    out_.vector = static_cast<int>(vector_);
    out_.block = block;
    out_.row_bytes = options_.target.l2_bytes / 2;
    Expr items = 1;
    for (size_t d = 0; d < ranges_.size(); ++d) {
      if (inner(d)) continue;
      items = items * (d == vector_ && block > 0 ? ceildiv(ranges_[d].extent, block) : ranges_[d].extent);
    }
    out_.items = items;
  }

  // The block of columns, made narrower until each thread has one, if there is enough work.
  int64_t shared_columns(int64_t block) const {
    int64_t elements = 1, others = 1;
    for (size_t d = 0; d < ranges_.size(); ++d) {
      elements *= extent(d);
      if (d != vector_ && !inner(d)) others *= extent(d);
    }
    const int64_t vectors = (extent(vector_) + lanes() - 1) / lanes(), wanted = options_.target.threads;
    if (elements < kSharedElements) return block;
    const auto items = [&] { return others * ((extent(vector_) + block - 1) / block); };
    while (block > lanes() && items() < std::min(wanted, others * vectors)) block = (block / lanes() + 1) / 2 * lanes();
    return block;
  }

  // Where each step along the other ranges reads much memory again along range v, as the taps of a convolution, cuts v
  // into parts of which this memory stays in the level 1 cache. The parts are the outermost range. Gives the new v.
  size_t cut_repeated(size_t v) {
    const Range r = ranges_[v];
    int64_t repeated = 0;  // bytes of an element of v
    for (const Access& a : accesses_) {
      bool elsewhere = a.store || !a.strides[v] || *a.strides[v] == 0;
      for (size_t d = 0; d < ranges_.size(); ++d) elsewhere |= d != v && (!a.strides[d] || *a.strides[d] != 0);
      if (!elsewhere) repeated += a.bytes;
    }
    if (ranges_.size() < 2 || !r.extent.is_constant() || r.extent.constant() * repeated <= kRepeatedBytes) return v;
    const int64_t vectors = r.extent.constant() / lanes(), most = kRepeatedBytes / repeated / lanes();
    const int64_t part = r.extent.constant() % lanes() || most < 1 ? 0 : largest_divisor(vectors, most) * lanes();
    if (part < kLeastPart * lanes()) return v;
    const auto [high, low] = cut(r, part);
    ranges_[v] = low;
    ranges_.insert(ranges_.begin(), high);
    read_accesses();
    return v + 1;
  }

  // Splits r, whose extent is constant, into two ranges: over its parts of `part` elements, and over the elements of a
  // part. Indices use the new variables; the caller replaces r in ranges_.
  std::pair<Range, Range> cut(const Range& r, int64_t part) {
    const int64_t parts = r.extent.constant() / part;
    const Range high{dag_.new_variable(parts), parts, RangeKind::Parallel};
    const Range low{dag_.new_variable(part), part, RangeKind::Parallel};
    const Expr image = high.var * Expr(part) + low.var;
    dag_.rewrite_indices(
        [&](Expr x) { return contains(x, r.var) ? substitute(x, [&](Expr s) { return s == r.var ? image : s; }) : x; });
    return {high, low};
  }

  // Gives a pointwise kernel an Inner range: along the unit stride of accesses that the vector gathers, or so that a
  // work item is not too short.
  void tile(size_t v) {
    vector_ = v;
    std::vector<double> lines(ranges_.size(), 0);
    for (const Access& a : accesses_) {
      if (!a.strides[v] || std::abs(*a.strides[v]) <= 1) continue;
      for (size_t d = 0; d < ranges_.size(); ++d) {
        if (d != v && a.strides[d] && std::abs(*a.strides[d]) == 1) lines[d] += a.trips;
      }
    }
    size_t t = static_cast<size_t>(std::max_element(lines.begin(), lines.end()) - lines.begin());
    if (lines[t] > 0) {
      transposed_ = true;
      if (cuts_into_squares(t) && cuts_into_squares(v)) {
        // The code generator reads squares along t and transposes them in registers. t must be the slower neighbour of
        // v.
        squares_ = true;
        move_last(t);
        vector_ = v < t ? v : v - 1;
        return;
      }
      make_inner(t, extent(t) <= 4 * kTransposeTile ? extent(t) : 2 * kTransposeTile);
      return;
    }
    if (rows_are_apart(dag_, ranges_, v, lanes())) return;
    int64_t room = kItemElements / std::max<int64_t>(1, extent(v));
    double total = 1;
    for (size_t d = 0; d < ranges_.size(); ++d) total *= static_cast<double>(extent(d));
    for (size_t d = ranges_.size(); d-- > 0 && room >= 2;) {
      if (ranges_[d].var == ranges_[vector_].var || inner(d)) continue;
      if (total / static_cast<double>(extent(vector_)) < 4) break;
      int64_t e = extent(d);
      if (!make_inner(d, std::min(e, room)) || e > room) break;
      room /= e;
    }
  }

  bool cuts_into_squares(size_t d) const {
    const Expr e = ranges_[d].extent;
    return !inner(d) && e.is_constant() && e.constant() % lanes() == 0;
  }

  // Makes range d, or its fastest part of at most `most` elements, an Inner range. vector_ keeps pointing at its range.
  bool make_inner(size_t d, int64_t most) {
    Range r = ranges_[d];
    Expr vector_var = ranges_[vector_].var;
    Range low = r;
    if (!r.extent.is_constant()) {
      if (most < hint(r.extent)) return false;
      ranges_.erase(ranges_.begin() + static_cast<int64_t>(d));
    } else {
      int64_t e = r.extent.constant();
      int64_t c = e <= most ? e : largest_divisor(e, most);
      if (c < 2) return false;
      if (c == e) {
        ranges_.erase(ranges_.begin() + static_cast<int64_t>(d));
      } else {
        std::tie(ranges_[d], low) = cut(r, c);
      }
    }
    low.kind = RangeKind::Inner;
    // The Inner ranges keep the order of the Parallel ranges.
    size_t at = 0;
    while (at < ranges_.size() && !inner(at)) ++at;
    ranges_.insert(ranges_.begin() + static_cast<int64_t>(at), low);
    for (size_t k = 0; k < ranges_.size(); ++k) {
      if (ranges_[k].var == vector_var) vector_ = k;
    }
    read_accesses();
    return true;
  }

  void estimate() {
    double per_element = 0;
    double bytes = 0;
    for (const Access& a : accesses_) {
      bytes += a.trips * static_cast<double>(a.bytes);
      const bool fast = a.strides[vector_] && std::abs(*a.strides[vector_]) <= 1;
      per_element += fast ? 1 : kGather * 2;
    }
    for (const Instr& i : dag_.instrs()) {
      if (i.kind == InstrKind::Compute) per_element += cost(i.prim);
    }
    Expr elements = 1;
    double all = 1;
    for (size_t d = 0; d < ranges_.size(); ++d) {
      all *= static_cast<double>(extent(d));
      if (inner(d)) {
        elements = elements * ranges_[d].extent;
      } else if (d == vector_ && out_.vector >= 0) {
        elements = elements * Expr(std::min(out_.block, extent(d)));
      }
    }
    const double l = static_cast<double>(lanes());
    double compute_ns = per_element / l / 2.5;
    double memory_ns =
        all > 0 ? bytes / all /
                      (bytes > static_cast<double>(options_.target.l2_bytes) ? options_.target.memory_bytes_per_ns
                                                                             : options_.target.cache_bytes_per_ns)
                : 0;
    double ns = std::max(compute_ns, memory_ns);
    // In fixed point, in 1/1024 ns, so that it stays an expression of the sizes.
    int64_t scaled = std::max<int64_t>(1, static_cast<int64_t>(ns * 1024));
    out_.item_cost = floordiv(elements * Expr(scaled), 1024) + 3;
    out_.bytes = static_cast<int64_t>(bytes);
    out_.vector_bytes = options_.target.vector_bytes;
    // If writes take more than half of the cache, they evict what is read; and other kernels share the cache.
    out_.stream = out_.bytes > options_.target.l3_bytes / 2;
    const double work = all * ns / 1000;
    out_.us = 0.5 + (work > 20 ? work / std::max(1, options_.target.threads) + 5 : work);
  }

  const Options& options_;
  size_t vector_ = 0;
  bool transposed_ = false, squares_ = false;
  CpuSchedule out_;
};

}  // namespace

CpuSchedule choose_loops(Dag& dag, const Options& options) { return LoopChooser(dag, options).run(); }

}  // namespace vesta::schedule
