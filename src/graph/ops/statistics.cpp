// Composites of several reductions: variance, logsumexp, norms. Mean and variance take two passes over the data.
#include <cmath>
#include <limits>

#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/promotion.h"
#include "graph/rules/reduced_dims.h"

namespace vesta::graph {
namespace {

void variance(const NodeArgs& args, Guards& g, Results& results) {
  const DType t = args.tensor(0).dtype;
  VESTA_USER_CHECK(is_float(t) || is_complex(t), "variance needs a floating point type");
  results = {reduced(args, g, real_of(t))};
}
void variance_and_mean(const NodeArgs& args, Guards& g, Results& results) {
  variance(args, g, results);
  results.push_back(results[0]);
  results[1].dtype = args.tensor(0).dtype;
}

double correction_of(const NodeArgs& args) { return args.has("correction") ? args.number("correction") : 1.0; }

Value* drop_dims(Builder& b, Value* kept, const std::vector<bool>& gone, bool keep) {
  const IntList dims = dim_list(gone);
  return keep || dims.empty() ? kept : b("aten::squeeze.dims", {kept, dims});
}

struct Moments {
  Value* mean;  // reduced dimensions kept
  Value* variance;
};
// Computed in double, as in ATen: squares of floats may not fit a float, and the mean of equal numbers must be that
// number.
Moments moments(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  Value* x = cast(b, node.input(0), DType::F64);
  const std::vector<bool> gone = reduced_dims(args);
  const IntList dims = dim_list(gone);
  Value* mean = mean_keeping(b, x, dims);
  Value* centered = b("aten::sub.Tensor", {x, mean});
  Value* squares = sum_keeping(b, b("aten::mul.Tensor", {centered, centered}), dims);
  const Expr count = reduced_count(x->type, gone);
  const double correction = correction_of(args);
  if (count.is_constant()) {
    const double divisor = std::max(0.0, static_cast<double>(count.constant()) - correction);
    return {mean, b("aten::div.Scalar", {squares, divisor})};
  }
  VESTA_CHECK(correction == std::floor(correction), "a fractional correction with a symbolic count");
  return {mean, b("aten::div.Scalar", {squares, max(count - static_cast<int64_t>(correction), 0)})};
}
bool supported(const Node& node) {
  const NodeArgs args = node.named();
  const double c = correction_of(args);
  const Expr count = reduced_count(args.tensor(0), reduced_dims(args));
  // ATen warns where no degree of freedom is left.
  if (count.is_constant() && static_cast<double>(count.constant()) <= c) return false;
  return is_float(args.tensor(0).dtype) && (count.is_constant() || c == std::floor(c));
}
template <bool Root, bool Mean>
std::vector<Value*> variance_form(Builder& b, const Node& node) {
  if (!supported(node)) return {};
  const std::vector<bool> gone = reduced_dims(node.named());
  const bool keep = keeps_dims(node.named());
  const Moments m = moments(b, node);
  Value* v = drop_dims(b, m.variance, gone, keep);
  if (Root) v = b("aten::sqrt", {v});
  if (!Mean) return finish(b, node, {v});
  return finish(b, node, {v, drop_dims(b, m.mean, gone, keep)});
}

void log_sum_exp(const NodeArgs& args, Guards& g, Results& results) {
  const DType t = args.tensor(0).dtype;
  results = {reduced(args, g, is_float(t) || is_complex(t) ? t : default_dtype())};
}
std::vector<Value*> log_sum_exp_form(Builder& b, const Node& node) {
  const TensorType& type = node.input(0)->type;
  if (is_complex(type.dtype) || numel(type).is_constant(0)) return {};
  const NodeArgs args = node.named();
  const std::vector<bool> gone = reduced_dims(args);
  const IntList dims = dim_list(gone);
  Value* x = cast(b, node.input(0), opmath(node.results[0]->type.dtype));
  Value* top = amax_keeping(b, x, dims);
  // For a row whose maximum is infinite, inf - inf would be NaN.
  Value* infinite = b("aten::eq.Scalar", {b("aten::abs", {top}), std::numeric_limits<double>::infinity()});
  Value* shift = b("aten::masked_fill.Scalar", {top, infinite, Expr(0)});
  Value* total = sum_keeping(b, b("aten::exp", {b("aten::sub.Tensor", {x, shift})}), dims);
  Value* result = b("aten::add.Tensor", {b("aten::log", {total}), shift});
  return finish(b, node, {drop_dims(b, result, gone, keeps_dims(args))});
}

void norm(const NodeArgs& args, Guards& g, Results& results) {
  const DType t = args.tensor(0).dtype;
  VESTA_USER_CHECK(is_float(t) || is_complex(t), "norm needs a floating point type");
  const char* name = args.schema().index_of("ord") >= 0 ? "ord" : "p";
  const bool is_real = args.has(name) && !std::holds_alternative<std::complex<double>>(args.get(name));
  if (const double order = is_real ? args.number(name) : 2; order < 0 || std::isinf(order)) {
    const std::vector<bool> gone = reduced_dims(args);
    for (size_t d = 0; d < gone.size(); ++d)
      VESTA_USER_CHECK(!gone[d] || !args.tensor(0).sizes[d].is_constant(0),
                       "this norm is not defined for a tensor without elements");
  }
  const bool has_dtype = args.schema().index_of("dtype") >= 0;
  results = {reduced(args, g, real_of(has_dtype ? args.dtype("dtype", t) : t))};
}
// Handles orders 0, 1, 2 and the infinities. Other orders stay calls.
std::vector<Value*> norm_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  const char* name = args.schema().index_of("ord") >= 0 ? "ord" : "p";
  if (std::holds_alternative<std::complex<double>>(args.get(name)) || !is_float(args.tensor(0).dtype)) return {};
  const double order = args.has(name) ? args.number(name) : 2.0;
  const std::vector<bool> gone = reduced_dims(args);
  const IntList dims = dim_list(gone);
  const bool keep = keeps_dims(args);
  Value* x = cast(b, node.input(0), opmath(node.results[0]->type.dtype));
  if (dims.empty() || numel(x->type).is_constant(0)) return {};
  const auto sum = [&](Value* v) { return b("aten::sum.dim_IntList", {v, dims, keep}, {{"dtype", x->type.dtype}}); };
  Value* r = nullptr;
  if (order == 2) {
    r = b("aten::sqrt", {sum(b("aten::mul.Tensor", {x, x}))});
  } else if (order == 1) {
    r = sum(b("aten::abs", {x}));
  } else if (order == 0) {
    r = sum(b("aten::_to_copy", {b("aten::ne.Scalar", {x, Expr(0)})}, {{"dtype", x->type.dtype}}));
  } else if (std::isinf(order)) {
    r = b(order > 0 ? "aten::amax" : "aten::amin", {b("aten::abs", {x}), dims, keep});
  } else {
    return {};
  }
  return finish(b, node, {r});
}

constexpr OpRow kStatisticsRows[] = {
    composite("aten::var.correction", variance, variance_form<false, false>, 0, LayoutRule::Ignores),
    composite("aten::std.correction", variance, variance_form<true, false>),
    composite("aten::var_mean.correction", variance_and_mean, variance_form<false, true>),
    composite("aten::std_mean.correction", variance_and_mean, variance_form<true, true>),
    composite("aten::logsumexp", log_sum_exp, log_sum_exp_form),
    composite("aten::linalg_vector_norm aten::norm.ScalarOpt_dim aten::norm.Scalar", norm, norm_form),
};

}  // namespace

std::span<const OpRow> statistics_rows() { return kStatisticsRows; }

}  // namespace vesta::graph
