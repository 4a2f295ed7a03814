#include "graph/rules/window.h"

#include "base/check.h"

namespace vesta::graph {

IntList spatial(const NodeArgs& args, std::string_view name, size_t dims, const IntList& otherwise) {
  IntList v = args.integers(name);
  if (v.empty()) v = otherwise;
  if (v.size() == 1) v.resize(dims, v[0]);
  VESTA_USER_CHECK(v.size() == dims, "{} needs {} entries", name, dims);
  return v;
}

Expr window_count(Guards& g, Expr size, Expr kernel, Expr stride, Expr padding, Expr dilation, bool ceil_mode) {
  VESTA_USER_CHECK(g.less(0, stride) && g.less(0, dilation) && !g.less(padding, 0),
                   "a window's stride, dilation or padding is wrong");
  const Expr span = dilation * (kernel - 1) + 1;
  Expr count = floordiv(size + padding * 2 - span + (ceil_mode ? stride - 1 : Expr(0)), stride) + 1;
  if (ceil_mode && !g.less((count - 1) * stride, size + padding)) count = count - 1;
  VESTA_USER_CHECK(!g.less(count, 1), "the window is larger than the input");
  return count;
}

}  // namespace vesta::graph
