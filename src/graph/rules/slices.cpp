#include "graph/rules/slices.h"

#include <algorithm>
#include <limits>
#include <numeric>

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

std::optional<std::vector<int64_t>> constants(std::span<const Expr> of) {
  if (!std::ranges::all_of(of, [](Expr e) { return e.is_constant(); })) return std::nullopt;
  std::vector<int64_t> out;
  for (const Expr e : of) out.push_back(e.constant());
  return out;
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

std::optional<std::vector<int64_t>> sizes_for_strides(const TensorType& x, const IntList& strides) {
  std::optional<std::vector<int64_t>> given = constants(strides);
  const Expr elements = numel(x);
  if (!given || !elements.is_constant() || !is_contiguous(x)) return std::nullopt;
  std::ranges::sort(*given, std::ranges::greater{});
  given->push_back(1);
  std::vector<int64_t> out;
  int64_t outer = elements.constant();
  for (const int64_t stride : *given) {
    if (stride < 1 || outer % stride != 0) return std::nullopt;
    if (stride == outer) continue;
    out.push_back(outer / stride);
    outer = stride;
  }
  return out;
}

std::optional<TensorPart> part_of_strides(const TensorType& x, const IntList& sizes, const IntList& strides,
                                          Expr offset) {
  const auto own_sizes = constants(x.sizes), own_strides = constants(x.strides);
  const auto given_sizes = constants(sizes), given_strides = constants(strides);
  if (!own_sizes || !own_strides || !given_sizes || !given_strides || !offset.is_constant()) return std::nullopt;
  if (std::ranges::any_of(*given_sizes, [](int64_t n) { return n < 1; })) return std::nullopt;
  std::vector<size_t> outer_first(x.dim());
  std::iota(outer_first.begin(), outer_first.end(), size_t{0});
  std::ranges::stable_sort(outer_first, std::ranges::greater{}, [&](size_t d) { return (*own_strides)[d]; });
  TensorPart out{std::vector<TensorPart::Dim>(x.dim()), {}};
  int64_t left = offset.constant();
  for (const size_t d : outer_first) {
    if ((*own_sizes)[d] == 1) continue;
    if (left < 0 || (*own_strides)[d] < 1) return std::nullopt;
    out.dims[d].start = left / (*own_strides)[d];
    left -= out.dims[d].start * (*own_strides)[d];
    if (out.dims[d].start >= (*own_sizes)[d]) return std::nullopt;
  }
  if (left != 0) return std::nullopt;
  std::vector<size_t> shown;  // for each given dimension, the one that it shows
  for (size_t k = 0; k < given_sizes->size(); ++k) {
    const int64_t size = (*given_sizes)[k], stride = (*given_strides)[k];
    const auto d = std::ranges::find_if(outer_first, [&](size_t own) {
      const TensorPart::Dim& dim = out.dims[own];
      const int64_t own_stride = (*own_strides)[own];
      if (dim.length || own_stride < 1 || stride < own_stride || stride % own_stride != 0) return false;
      if (size == 1 && stride != own_stride) return false;
      return dim.start + (size - 1) * (stride / own_stride) < (*own_sizes)[own];
    });
    if (d == outer_first.end()) return std::nullopt;
    out.dims[*d].step = stride / (*own_strides)[*d];
    out.dims[*d].length = size;
    shown.push_back(*d);
  }
  for (const size_t d : shown)
    out.order.push_back(std::ranges::count_if(shown, [&](size_t other) { return other < d; }));
  return out;
}

}  // namespace vesta::graph
