// Parts of tensors.
#pragma once

#include <optional>
#include <vector>

#include "graph/rules/broadcast.h"

namespace vesta::graph {

struct SliceRange {
  Expr start, length, step;
};
// Reads start, end and step as Python does.
SliceRange slice_range(Guards& g, const NodeArgs& args, Expr size);

// A part of a tensor. Each dimension is sliced, or indexed, which removes it. Then the remaining dimensions are
// permuted.
struct TensorPart {
  struct Dim {
    int64_t start = 0, step = 1;
    std::optional<int64_t> length;  // none: the index `start`
  };
  std::vector<Dim> dims;
  std::vector<int64_t> order;
};
// The part that as_strided(x, sizes, strides, offset) shows, with the offset from x's first element. nullopt: it is no
// such part (a diagonal, overlapping windows, no element), or a number is not constant.
std::optional<TensorPart> part_of_strides(const TensorType& x, const IntList& sizes, const IntList& strides,
                                          Expr offset);
// The sizes of a contiguous tensor like x that has a dimension for each of these strides. nullopt: there is none (a
// stride does not divide the next larger one, or the number of elements), or a number is not constant.
std::optional<std::vector<int64_t>> sizes_for_strides(const TensorType& x, const IntList& strides);

}  // namespace vesta::graph
