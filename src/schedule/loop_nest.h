// The ranges of a dag and how its accesses run along them. Every device's schedule starts with them.
#pragma once

#include <algorithm>
#include <limits>

#include "loops/dag.h"

namespace vesta::schedule {

struct Access {
  loops::Ref ref = 0;
  bool store = false;
  int64_t bytes = 4;
  std::vector<std::optional<int64_t>> strides;  // per range, under the hints; nullopt: not affine
  double trips = 1;                             // elements touched
};

class LoopNest {
 public:
  explicit LoopNest(loops::Dag& dag) : dag_(dag), ranges_(dag.ranges()) {}

 protected:
  int64_t extent(size_t d) const { return std::max<int64_t>(1, hint(ranges_[d].extent)); }
  bool inner(size_t d) const { return ranges_[d].kind == loops::RangeKind::Inner; }
  // Drops ranges of one element: their variable is 0. One Inner range stays where there are reductions.
  void drop_ones();
  void read_accesses();
  // Orders Parallel ranges by the memory of the largest store, and Inner ranges by that of the largest access. If the
  // largest access touches at least `outweighs` times as many elements as the store, the Parallel range along which it
  // is contiguous comes last.
  void order(double outweighs = std::numeric_limits<double>::infinity());

  loops::Dag& dag_;
  std::vector<loops::Range>& ranges_;  // the dag's
  std::vector<Access> accesses_;

 private:
  // The loop variables that decide the gathered indices in an index expression.
  std::vector<Expr> named_by(Expr index) const;
};

}  // namespace vesta::schedule
