// Reductions with one operation: sum, prod, max, min, any, all, argmax, argmin. Results are contiguous. A sum
// accumulates in its result's type (for integers int64).
#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/reduced_dims.h"

namespace vesta::graph {
namespace {

DType sum_type(const NodeArgs& args) {
  const DType t = args.tensor(0).dtype;
  return args.dtype("dtype", is_integral(t) || t == DType::Bool ? DType::I64 : t);
}

// max, argmax and similar operators have no identity, so an empty dimension is the caller's mistake.
void require_elements(const NodeArgs& args, Guards& g) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(!is_complex(x.dtype), "complex numbers have no order");
  if (x.dim() == 0) return;
  const std::vector<bool> gone = checked_reduced_dims(args, g);
  for (size_t i = 0; i < x.dim(); ++i)
    VESTA_USER_CHECK(!gone[i] || !x.sizes[i].is_constant(0), "this reduction is not defined over an empty dimension");
}

void sum(const NodeArgs& args, Guards& g, Results& results) { results = {reduced(args, g, sum_type(args))}; }
void truth(const NodeArgs& args, Guards& g, Results& results) {
  if (args.has("dim")) {
    const auto* dims = std::get_if<IntList>(&args.get("dim"));
    if (dims && dims->empty())
      VESTA_UNSUPPORTED(
          "any and all do not support an empty list of dimensions");  // an empty list means no dimensions here
  }
  results = {reduced(args, g, args.tensor(0).dtype == DType::U8 ? DType::U8 : DType::Bool)};
}
void extreme(const NodeArgs& args, Guards& g, Results& results) {
  require_elements(args, g);
  results = {reduced(args, g, args.tensor(0).dtype)};
}
void position(const NodeArgs& args, Guards& g, Results& results) {
  require_elements(args, g);
  VESTA_USER_CHECK(args.tensor(0).dtype != DType::Bool, "argmax and argmin do not support Bool");
  results = {reduced(args, g, DType::I64)};
}
void extreme_and_position(const NodeArgs& args, Guards& g, Results& results) {
  extreme(args, g, results);
  results.push_back(results[0]);
  results[1].dtype = DType::I64;
}
void aminmax(const NodeArgs& args, Guards& g, Results& results) {
  extreme(args, g, results);
  results.push_back(results[0]);
}
void mean(const NodeArgs& args, Guards& g, Results& results) {
  const DType t = args.dtype("dtype", args.tensor(0).dtype);
  VESTA_USER_CHECK(is_float(t) || is_complex(t), "mean needs a floating point type");
  results = {reduced(args, g, t)};
}

// Complex numbers are summed part by part. Returns nothing for real numbers.
std::vector<Value*> sum_form(Builder& b, const Node& node) {
  Value* z = node.input(0);
  if (!is_complex(z->type.dtype) || node.results[0]->type.dtype != z->type.dtype) return {};
  const IntList dims = dim_list(reduced_dims(node.named()));
  if (dims.empty()) return finish(b, node, {b("aten::clone", {z})});
  Value* parts = b("aten::sum.dim_IntList", {b("aten::view_as_real", {z}), dims, keeps_dims(node.named())});
  return finish(b, node, {b("aten::view_as_complex", {parts})});
}

std::vector<Value*> mean_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const std::vector<bool> gone = reduced_dims(args);
  const DType t = opmath(node.results[0]->type.dtype);
  Value* x = cast(b, node.input(0), t);
  Value* total = b("aten::sum.dim_IntList", {x, dim_list(gone), keeps_dims(args)}, {{"dtype", t}});
  return finish(b, node, {b("aten::div.Scalar", {total, reduced_count(x->type, gone)})});
}

// Values and positions of one dimension.
std::vector<Value*> extreme_pair(Builder& b, const Node& node, const char* value, const char* place) {
  if (node.input(0)->type.dtype == DType::Bool) return {};
  const NodeArgs args = node.named();
  const Arg& keep = args.get("keepdim");
  Value* x = node.input(0);
  return finish(b, node, {b(value, {x, IntList{args.integer("dim")}, keep}), b(place, {x, args.get("dim"), keep})});
}
std::vector<Value*> max_dim(Builder& b, const Node& node) {
  return extreme_pair(b, node, "aten::amax", "aten::argmax");
}
std::vector<Value*> min_dim(Builder& b, const Node& node) {
  return extreme_pair(b, node, "aten::amin", "aten::argmin");
}

std::vector<Value*> aminmax_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const IntList dims = dim_list(reduced_dims(args));
  Value* x = node.input(0);
  return finish(b, node, {b("aten::amin", {x, dims, keeps_dims(args)}), b("aten::amax", {x, dims, keeps_dims(args)})});
}

void count(const NodeArgs& args, Guards& g, Results& results) { results = {reduced(args, g, DType::I64)}; }
std::vector<Value*> count_form(Builder& b, const Node& node) {
  Value* x = node.input(0);
  if (is_complex(x->type.dtype)) return {};
  const IntList dims = dim_list(reduced_dims(node.named()));
  return finish(b, node, {b("aten::sum.dim_IntList", {b("aten::ne.Scalar", {x, Expr(0)}), dims, false})});
}

constexpr OpRow reduce(const char* names, ReduceOp op, ShapeRule shape, Decompose f = nullptr) {
  return {.names = names, .family = Family::Reduction, .shape = shape, .decompose = f, .reduce = op};
}
constexpr OpRow kReductionRows[] = {
    reduce("aten::sum aten::sum.dim_IntList", ReduceOp::Sum, sum, sum_form),
    reduce("aten::prod aten::prod.dim_int", ReduceOp::Prod, sum),
    reduce("aten::any aten::any.dim aten::any.dims", ReduceOp::Any, truth),
    reduce("aten::all aten::all.dim aten::all.dims", ReduceOp::All, truth),
    reduce("aten::amax aten::max", ReduceOp::Max, extreme),
    reduce("aten::amin aten::min", ReduceOp::Min, extreme),
    reduce("aten::argmax", ReduceOp::ArgMax, position),
    reduce("aten::argmin", ReduceOp::ArgMin, position),
    composite("aten::max.dim", extreme_and_position, max_dim),
    composite("aten::min.dim", extreme_and_position, min_dim),
    composite("aten::aminmax", aminmax, aminmax_form),
    composite("aten::count_nonzero.dim_IntList", count, count_form),
    composite("aten::mean aten::mean.dim", mean, mean_form, 0, LayoutRule::Ignores),
};

}  // namespace

std::span<const OpRow> reduction_rows() { return kReductionRows; }

}  // namespace vesta::graph
