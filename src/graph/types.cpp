// Facts about tensor types that hold for every value of the symbols.
#include <algorithm>

#include "graph/graph.h"

namespace vesta::graph {

Expr numel(const TensorType& t) {
  Expr n = 1;
  for (Expr s : t.sizes) n = n * s;
  return n;
}

std::vector<Expr> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    if (!sizes[i].is_constant(0)) step = step * sizes[i];
  }
  return strides;
}

bool is_contiguous(const TensorType& t) {
  Expr expected = 1;
  bool matches = true;
  for (size_t i = t.dim(); i-- > 0;) {
    if (t.sizes[i].is_constant(0)) return true;
    if (t.sizes[i].is_constant(1)) continue;
    matches &= t.strides[i] == expected;
    expected = expected * t.sizes[i];
  }
  return matches;
}

bool is_non_overlapping_and_dense(const TensorType& t) {
  std::vector<size_t> dims;
  for (size_t i = 0; i < t.dim(); ++i) {
    if (t.sizes[i].is_constant(0)) return true;
    if (!t.sizes[i].is_constant(1)) dims.push_back(i);
  }
  // Takes, from the inside out, the dimension whose stride is the product of those taken before.
  Expr expected = 1;
  while (!dims.empty()) {
    const auto it = std::find_if(dims.begin(), dims.end(), [&](size_t d) { return t.strides[d] == expected; });
    if (it == dims.end()) return false;
    expected = expected * t.sizes[*it];
    dims.erase(it);
  }
  return true;
}

}  // namespace vesta::graph
