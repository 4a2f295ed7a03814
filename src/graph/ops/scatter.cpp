// Writes at computed indices. Each operator gives a new tensor: the first argument with some elements replaced or added
// to.
#include <algorithm>

#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/index_shape.h"
#include "graph/rules/slices.h"

namespace vesta::graph {
namespace {

void contiguous(const NodeArgs& args, Guards&, Results& results) {
  results = {contiguous_like(args.tensor(0), args.tensor(0).sizes)};
}
// at::clone_preserve_strides keeps even gaps, unless elements overlap.
void kept_strides(const NodeArgs& args, Guards& g, Results& results) {
  results = {args.tensor(0)};
  const TensorType& x = args.tensor(0);
  for (size_t i = 0; i < x.dim(); ++i)
    if (x.strides[i].is_constant(0) && !x.sizes[i].is_constant(1)) results[0].strides = preserved_strides(g, x);
}
// The parts of a view get the elements of the second operand.
void fits(const NodeArgs& args, Guards& g, const Sizes& part, const char* what) {
  VESTA_USER_CHECK(same_sizes(g, part, args.tensor(1).sizes), "{}: the shape of the source does not fit", what);
}

void slice_scatter(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  Sizes part = x.sizes;
  part[d] = slice_range(g, args, x.sizes[d]).length;
  fits(args, g, part, "slice_scatter");
  kept_strides(args, g, results);
}
void select_scatter(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  const Expr i = args.integer("index");
  VESTA_USER_CHECK(!g.less(i, -x.sizes[d]) && g.less(i, x.sizes[d]), "select_scatter: the index is out of range");
  Sizes part = x.sizes;
  part.erase(part.begin() + d);
  fits(args, g, part, "select_scatter");
  kept_strides(args, g, results);
}

void index_put(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const ValueList& indices = std::get<ValueList>(args[1]);
  const auto any_of = [&](DType t) {
    return std::any_of(indices.begin(), indices.end(), [t](const Value* v) { return v && v->type.dtype == t; });
  };
  if (any_of(DType::U8)) VESTA_UNSUPPORTED("a mask of type uint8, for which ATen warns in each call");
  const bool masks = any_of(DType::Bool);
  VESTA_USER_CHECK(args.tensor(2).dtype == x.dtype, "index_put: the source and the destination have different types");
  // The call reads a mask itself; the result's type does not depend on it.
  if (!masks) broadcast(g, index_result(g, x, indices).sizes, args.tensor(2).sizes);
  empty_like_first(args, g, results);
}
void masked(const NodeArgs& args, Guards& g, Results& results) {
  results = {contiguous_like(args.tensor(0), broadcast(g, args.tensor(0).sizes, args.tensor(1).sizes))};
}
void add_like(const NodeArgs& args, Guards& g, Results& results) {
  wrap_dim(g, args.integer("dim"), args.tensor(0).dim());
  contiguous(args, g, results);
}
void fill_like(const NodeArgs& args, Guards& g, Results& results) {
  wrap_dim(g, args.integer("dim"), args.tensor(0).dim());
  empty_like_first(args, g, results);
}

// ---- gradients of views ----

void slice_backward(const NodeArgs& args, Guards&, Results& results) {
  results = {contiguous_like(args.tensor(0), args.integers("input_sizes"))};
}
Value* zeros(Builder& b, const TensorType& t) {
  return b("aten::full", {IntList(t.sizes), Expr(0)}, {{"dtype", t.dtype}, {"device", t.device}});
}
std::vector<Value*> slice_backward_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  Value* base = zeros(b, node.results[0]->type);
  return finish(b, node,
                {b("aten::slice_scatter",
                   {base, node.input(0), args.get("dim"), args.get("start"), args.get("end"), args.get("step")})});
}
std::vector<Value*> select_backward_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  Value* base = zeros(b, node.results[0]->type);
  return finish(b, node, {b("aten::select_scatter", {base, node.input(0), args.get("dim"), args.get("index")})});
}

void embedding_backward(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& grad = args.tensor(0);
  results = {contiguous_like(grad, {args.integer("num_weights"), grad.sizes.back()})};
}

// Half-precision rows are added up in float32, as ATen does on a GPU: its additions to half-precision rows would round
// each sum. Instead of a float32 table there is one row of sums for each index of the batch: the rows of equal indices
// are added to that of the first one, which is found by comparing all pairs of indices. Each of the equal indices then
// writes this sum.
Value* narrow_embedding_gradient(Builder& b, const TensorType& table, Value* index, Value* rows) {
  const Expr n = index->type.sizes[0];
  const auto of_type = [&](DType t) {
    return std::vector<std::pair<std::string_view, Arg>>{{"dtype", t}, {"device", table.device}};
  };
  Value* narrow = cast(b, index, DType::I32);  // two numbers take one register
  Value* places = b("aten::arange.start_step", {Expr(0), n, Expr(1)}, of_type(DType::I32));
  Value* equal =
      b("aten::eq.Tensor", {b("aten::unsqueeze", {narrow, Expr(0)}), b("aten::unsqueeze", {narrow, Expr(1)})});
  Value* none = b("aten::full", {IntList{}, n}, of_type(DType::I32));
  Value* first = b("aten::where.self", {equal, b("aten::unsqueeze", {places, Expr(0)}), none});
  first = cast(b, b("aten::amin", {first, IntList{Expr(1)}, false}), DType::I64);
  TensorType sums = rows->type;
  sums.dtype = DType::F32;
  Value* sum = b("aten::index_add", {zeros(b, sums), Expr(0), first, cast(b, rows, DType::F32)});
  sum = cast(b, b("aten::index_select", {sum, Expr(0), first}), table.dtype);
  return b("aten::index_copy", {zeros(b, table), Expr(0), cast(b, index, DType::I64), sum});
}

// Comparing all pairs of n indices takes a quarter of the time of writing as many half-precision elements (measured on
// an H200). ATen sorts the indices.
bool pays_to_compare(Expr n, const TensorType& table) {
  constexpr double kPairsOfElement = 4;
  return static_cast<double>(hint(n)) * static_cast<double>(hint(n)) <=
         kPairsOfElement * static_cast<double>(hint(numel(table)));
}

// Adds each row of the gradient to the row that its index names. The padding's row stays zero.
std::vector<Value*> embedding_backward_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const TensorType& grad = node.input(0)->type;
  if (args.boolean("scale_grad_by_freq") || !is_float(grad.dtype)) return {};
  Value* index = node.input(1);
  Value* rows = node.input(0);
  if (!args.integer("padding_idx").is_constant()) return {};
  if (args.integer("padding_idx").constant() >= 0) {
    Value* padding = b("aten::unsqueeze", {b("aten::eq.Scalar", {index, args.integer("padding_idx")}), Expr(-1)});
    rows = b("aten::masked_fill.Scalar", {rows, padding, Expr(0)});
  }
  const Expr n = numel(index->type);
  if (n.is_constant(0)) return {};
  const bool narrow = grad.device.type == DeviceType::CUDA && is_narrow(grad.dtype);
  if (narrow && !pays_to_compare(n, node.results[0]->type)) return {};
  index = reshaped(b, index, {n});
  rows = reshaped(b, rows, {n, grad.sizes.back()});
  if (narrow) return finish(b, node, {narrow_embedding_gradient(b, node.results[0]->type, index, rows)});
  return finish(b, node, {b("aten::index_add", {zeros(b, node.results[0]->type), Expr(0), index, rows})});
}

constexpr OpRow write(const char* names, ShapeRule shape) {
  return {.names = names, .family = Family::Scatter, .shape = shape, .flags = kMayRaise};
}

constexpr OpRow kScatterRows[] = {
    indexed("aten::slice_scatter", slice_scatter),
    indexed("aten::select_scatter", select_scatter),
    indexed("aten::diagonal_scatter", kept_strides),
    call("aten::as_strided_scatter", kept_strides, kMayRaise),
    write("aten::index_put aten::_unsafe_index_put aten::_index_put_impl", index_put),
    write("aten::scatter.src aten::scatter.value aten::scatter.reduce aten::scatter.value_reduce aten::scatter_add "
          "aten::scatter_reduce.two",
          contiguous),
    write("aten::index_add aten::index_copy", add_like),
    write("aten::index_fill.int_Scalar aten::index_fill.int_Tensor", fill_like),
    write("aten::masked_scatter", masked),
    composite("aten::embedding_dense_backward", embedding_backward, embedding_backward_form),
    composite("aten::slice_backward", slice_backward, slice_backward_form),
    composite("aten::select_backward", slice_backward, select_backward_form),
};

}  // namespace

std::span<const OpRow> scatter_rows() { return kScatterRows; }

}  // namespace vesta::graph
