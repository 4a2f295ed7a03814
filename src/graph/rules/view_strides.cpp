#include "graph/rules/view_strides.h"

#include <numeric>

#include "base/check.h"

namespace vesta::graph {

Sizes infer_sizes(Guards& g, const IntList& sizes, const TensorType& t) {
  Sizes out(sizes.begin(), sizes.end());
  const Expr total = numel(t);
  std::optional<size_t> open;
  Expr known = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].is_constant(-1)) {
      VESTA_USER_CHECK(!open, "only one size can be inferred");
      open = i;
    } else {
      known = known * out[i];
    }
  }
  if (open) {
    VESTA_USER_CHECK(!known.is_constant(0), "a size cannot be inferred next to a size of 0");
    out[*open] = floordiv(total, known);
    known = known * out[*open];
  }
  VESTA_USER_CHECK(known == total || g.equal(known, total), "the shape is invalid for {} elements", to_string(total));
  return out;
}

std::optional<std::vector<Expr>> view_strides(Guards& g, const TensorType& t, std::span<const Expr> sizes) {
  if (t.dim() == 0) return std::vector<Expr>(sizes.size(), Expr(1));
  if (is_empty(g, t.sizes)) {
    if (std::equal(sizes.begin(), sizes.end(), t.sizes.begin(), t.sizes.end())) return t.strides;
    return contiguous_strides(sizes);
  }
  std::vector<Expr> out(sizes.size());
  auto v = static_cast<int64_t>(sizes.size()) - 1;
  Expr base = t.strides.back(), old_count = 1, new_count = 1;
  const auto same = [&](Expr a, Expr b) { return a == b || g.equal(a, b); };
  for (auto d = static_cast<int64_t>(t.dim()) - 1; d >= 0; --d) {
    old_count = old_count * t.sizes[d];
    const bool chunk_ends = d == 0 || (!same(t.sizes[d - 1], 1) && !same(t.strides[d - 1], old_count * base));
    if (!chunk_ends) continue;
    while (v >= 0 && (sizes[v].is_constant(1) || (new_count != old_count && g.less(new_count, old_count)))) {
      out[v] = new_count * base;
      new_count = new_count * sizes[v];
      --v;
    }
    if (!same(new_count, old_count)) return std::nullopt;
    if (d > 0) {
      base = t.strides[d - 1];
      old_count = new_count = 1;
    }
  }
  if (v != -1) return std::nullopt;
  return out;
}

std::vector<Expr> reshape_index(std::span<const Expr> from, std::span<const Expr> to, std::span<const Expr> index) {
  std::vector<Expr> out(from.size(), Expr(0));
  size_t f = from.size(), t = to.size();
  while (f > 0) {
    // Grows a group on both sides, from the innermost dimension, until the products agree.
    const size_t f_end = f, t_end = t;
    Expr old_count = from[--f], new_count = 1;
    if (t > 0) new_count = to[--t];
    while (!provably_equal(old_count, new_count)) {
      if (f > 0 && (t == 0 || provably_less(old_count, new_count))) {
        old_count = old_count * from[--f];
      } else if (t > 0 && (f == 0 || provably_less(new_count, old_count))) {
        new_count = new_count * to[--t];
      } else {
        f = t = 0;  // the sizes cannot be compared, so the rest is one group
        break;
      }
    }
    Expr position = 0;
    for (size_t i = t; i < t_end; ++i) position = position * to[i] + index[i];
    for (size_t i = f_end; i-- > f;) {
      if (from[i].is_constant(1)) continue;
      out[i] = i == f ? position : mod(position, from[i]);
      if (i > f) position = floordiv(position, from[i]);
    }
  }
  return out;
}

std::vector<int64_t> view_permutation(const NodeArgs& args) {
  const size_t n = args.tensor(0).dim();
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  if (args.schema().index_of("dims") >= 0) {
    const IntList& dims = args.integers("dims");
    for (size_t i = 0; i < n; ++i) order[i] = wrap_dim(dims[i], n);
  } else if (args.schema().index_of("dim0") >= 0) {
    if (n > 0) std::swap(order[wrap_dim(args.integer("dim0"), n)], order[wrap_dim(args.integer("dim1"), n)]);
  } else if (n == 2) {
    std::swap(order[0], order[1]);
  }
  return order;
}

Diagonal diagonal_of(const NodeArgs& args, size_t ndim) {
  return {wrap_dim(args.integer("dim1"), ndim), wrap_dim(args.integer("dim2"), ndim), args.integer("offset")};
}

}  // namespace vesta::graph
