#include "graph/rules/slices.h"

#include <limits>

#include "base/check.h"

namespace vesta::graph {
namespace {

// A slice bound as Python reads it: a negative bound counts from the end, and all are clamped to [least, size].
Expr bound(Guards& g, Expr v, Expr least, Expr size) {
  if (g.less(v, 0)) {
    v = v + size;
    if (g.less(v, 0)) v = 0;
  }
  if (g.less(v, least)) return least;
  if (v == size || g.less(size, v)) return size;
  return v;
}

}  // namespace

SliceRange slice_range(Guards& g, const NodeArgs& args, Expr size) {
  const Expr step = args.integer("step");
  VESTA_USER_CHECK(g.less(0, step), "slice: the step must be positive");
  const Expr start = args.has("start") ? bound(g, args.integer("start"), 0, size) : Expr(0);
  // A bound that reaches the largest integer means "to the end".
  const bool open = !args.has("end") || args.integer("end").is_constant(std::numeric_limits<int64_t>::max());
  const Expr end = open ? size : bound(g, args.integer("end"), start, size);
  const Expr length = end == start ? Expr(0) : ceildiv(end - start, step);
  return {start, length, step};
}

}  // namespace vesta::graph
