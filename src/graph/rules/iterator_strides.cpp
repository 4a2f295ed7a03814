#include "graph/rules/iterator_strides.h"

#include <algorithm>

namespace vesta::graph {
namespace {

// The dimensions from fastest to slowest by TensorIterator's insertion sort with ambiguous comparisons.
std::vector<size_t> dimension_order(Guards& g, std::span<const Expr> sizes,
                                    const std::vector<std::vector<Expr>>& strides) {
  const size_t n = sizes.size();
  std::vector<size_t> perm(n);
  for (size_t i = 0; i < n; ++i) perm[i] = n - 1 - i;
  // 1: dim0 comes after dim1; -1: before; 0: no operand decides.
  const auto compare = [&](size_t dim0, size_t dim1) {
    for (const auto& s : strides) {
      if (s[dim0].is_constant(0) || s[dim1].is_constant(0)) continue;
      if (s[dim0] == s[dim1] || g.equal(s[dim0], s[dim1])) {
        if (g.less(sizes[dim1], sizes[dim0])) return 1;
        continue;
      }
      return g.less(s[dim0], s[dim1]) ? -1 : 1;
    }
    return 0;
  };
  for (size_t i = 1; i < n; ++i) {
    size_t dim1 = i;
    for (size_t dim0 = i; dim0-- > 0;) {
      const int c = compare(perm[dim0], perm[dim1]);
      if (c > 0) {
        std::swap(perm[dim0], perm[dim1]);
        dim1 = dim0;
      } else if (c < 0) {
        break;
      }
    }
  }
  return perm;
}

std::vector<Expr> sorted_strides(Guards& g, std::span<const Expr> sizes, std::span<const TensorType* const> operands) {
  const size_t n = sizes.size();
  std::vector<std::vector<Expr>> strides;
  for (const TensorType* t : operands) {
    std::vector<Expr> s(n, Expr(0));
    const size_t offset = n - t->dim();
    for (size_t i = 0; i < t->dim(); ++i)
      if (!(t->sizes[i].is_constant(1) && !sizes[offset + i].is_constant(1))) s[offset + i] = t->strides[i];
    strides.push_back(std::move(s));
  }
  const std::vector<size_t> perm = dimension_order(g, sizes, strides);
  bool inverted = true;
  for (size_t i = 0; i < n; ++i) inverted &= perm[i] == n - 1 - i;
  if (inverted) return contiguous_strides(sizes);
  std::vector<Expr> out(n);
  Expr next = 1;
  for (size_t d : perm) {
    out[d] = next;
    next = next * sizes[d];
  }
  return out;
}

}  // namespace

std::vector<Expr> iterator_strides(Guards& g, std::span<const Expr> sizes,
                                   std::span<const TensorType* const> operands) {
  if (sizes.empty()) return {};
  const bool same_shape = std::all_of(operands.begin(), operands.end(), [&](const TensorType* t) {
    return std::equal(t->sizes.begin(), t->sizes.end(), sizes.begin(), sizes.end());
  });
  if (same_shape) {
    const auto all = [&](auto&& holds) { return std::all_of(operands.begin(), operands.end(), holds); };
    if (all([&](const TensorType* t) { return is_contiguous(g, *t); })) return contiguous_strides(sizes);
    if (all([&](const TensorType* t) { return is_contiguous(g, *t, MemoryFormat::ChannelsLast); }))
      return format_strides(sizes, MemoryFormat::ChannelsLast);
    if (all([&](const TensorType* t) { return t->strides == operands[0]->strides && is_dense(g, *t); }))
      return operands[0]->strides;
  }
  return sorted_strides(g, sizes, operands);
}

std::vector<Expr> preserved_strides(Guards& g, const TensorType& t) {
  if (is_dense(g, t)) return t.strides;
  const TensorType* one[] = {&t};
  return sorted_strides(g, t.sizes, one);
}

TensorType preserved(Guards& g, const TensorType& t) { return {t.dtype, t.sizes, preserved_strides(g, t), t.device}; }

}  // namespace vesta::graph
