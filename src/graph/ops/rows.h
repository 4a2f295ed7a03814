// The op table. Each file of this folder yields the rows of one family of operators; registry.cpp joins them in this
// order.
//
// A row is one line where it can be: a name, a family, and the functions that the family needs. What rows share is in
// graph/rules. docs/adding-an-op.md walks through a row. Guarantees one row per operator (registry.cpp checks it) and
// one schema per row. Shape rules must give eager's exact dtypes, sizes and strides: tests/unit/graph_ops_types.cpp
// compares them with recorded calls of ATen.
#pragma once

#include "base/check.h"
#include "graph/graph.h"
#include "graph/rules/iterator_strides.h"

namespace vesta::graph {

using Results = std::vector<TensorType>;

// ---- rows of families

constexpr OpRow pointwise(const char* names, Promote promote, PointwiseBody f, uint8_t accepts = kAnyType,
                          uint32_t flags = 0) {
  return {
      .names = names, .family = Family::Pointwise, .promote = promote, .body = f, .flags = flags, .accepts = accepts};
}
// The result is a float for every input type (`build_borrowing_unary_float_op`).
constexpr OpRow to_float(const char* names, PointwiseBody f, uint8_t accepts = kAnyType, uint32_t flags = 0) {
  return pointwise(names, Promote::Float, f, accepts, flags);
}
constexpr OpRow with_shape(OpRow row, ShapeRule shape) {
  row.shape = shape;
  return row;
}
constexpr OpRow composite(const char* names, ShapeRule shape, Decompose f, uint32_t flags = 0,
                          LayoutRule layout = LayoutRule::None) {
  return {
      .names = names, .family = Family::Composite, .shape = shape, .decompose = f, .flags = flags, .layout = layout};
}
constexpr OpRow indexed(const char* names, ShapeRule shape, uint32_t flags = 0, LayoutRule layout = LayoutRule::None) {
  return {.names = names, .family = Family::Indexed, .shape = shape, .flags = flags, .layout = layout};
}
// An extern call with a known shape.
constexpr OpRow call(const char* names, ShapeRule shape, uint32_t flags = 0, LayoutRule layout = LayoutRule::None) {
  return {.names = names, .shape = shape, .flags = flags, .layout = layout};
}

// ---- shape rules of several families

// at::empty_like(the first operand).
void empty_like_first(const NodeArgs& args, Guards& guards, Results& results);

// ---- the table

std::span<const OpRow> unary_rows();
std::span<const OpRow> binary_rows();
std::span<const OpRow> compare_rows();
std::span<const OpRow> ternary_rows();
std::span<const OpRow> activation_rows();
std::span<const OpRow> activation_backward_rows();
std::span<const OpRow> view_rows();
std::span<const OpRow> copy_rows();
std::span<const OpRow> factory_rows();
std::span<const OpRow> random_rows();
std::span<const OpRow> reduction_rows();
std::span<const OpRow> statistics_rows();
std::span<const OpRow> softmax_rows();
std::span<const OpRow> normalization_rows();
std::span<const OpRow> loss_rows();
std::span<const OpRow> joining_rows();
std::span<const OpRow> moving_rows();
std::span<const OpRow> padding_rows();
std::span<const OpRow> indexing_rows();
std::span<const OpRow> scatter_rows();
std::span<const OpRow> scan_rows();
std::span<const OpRow> sorting_rows();
std::span<const OpRow> matmul_rows();
std::span<const OpRow> convolution_rows();
std::span<const OpRow> pooling_rows();
std::span<const OpRow> upsample_rows();
std::span<const OpRow> attention_rows();
std::span<const OpRow> linear_algebra_rows();
std::span<const OpRow> library_rows();

using RowFamily = std::span<const OpRow> (*)();
inline constexpr RowFamily kRowFamilies[] = {
    unary_rows,    binary_rows,        compare_rows,   ternary_rows,        activation_rows, activation_backward_rows,
    view_rows,     copy_rows,          factory_rows,   random_rows,         reduction_rows,  statistics_rows,
    softmax_rows,  normalization_rows, loss_rows,      joining_rows,        moving_rows,     padding_rows,
    indexing_rows, scatter_rows,       scan_rows,      sorting_rows,        matmul_rows,     convolution_rows,
    pooling_rows,  upsample_rows,      attention_rows, linear_algebra_rows, library_rows,
};

// The types of a node whose row has no shape rule of its own: Pointwise rows broadcast, promote and take
// TensorIterator's strides. Throws Unsupported for any other family.
void default_shape(const OpRow& row, const NodeArgs& args, Guards& guards, std::vector<TensorType>& results);

}  // namespace vesta::graph
