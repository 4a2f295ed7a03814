// Activation functions, by the formulas of ATen's CPU kernels.
#include <array>
#include <numbers>

#include "graph/ops/rows.h"
#include "graph/rules/body.h"
#include "graph/rules/decompose.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

constexpr OpRow activation(const char* names, PointwiseBody f, uint8_t accepts = kFloatType) {
  return pointwise(names, Promote::First, f, accepts);
}

Scalar gelu(Body x) {
  const Scalar v = x[0];
  if (x.args().string("approximate") == "tanh") {
    constexpr double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Scalar inner = beta * (v + 0.044715 * (v * v * v));
    return 0.5 * v * (1 + tanh(inner));
  }
  return v * 0.5 * (1 + erf(v * (1 / std::numbers::sqrt2)));
}

Scalar hardtanh(Body x) { return minimum(maximum(x[0], x.number("min_val")), x.number("max_val")); }

void like_first(const NodeArgs& args, Guards& g, std::vector<TensorType>& results, uint8_t accepts) {
  VESTA_USER_CHECK(category(args.tensor(0).dtype) & accepts, "{} is not implemented for this type", args.schema().name);
  const TensorType& x = args.tensor(0);
  results = {x};
  results[0].strides = iterator_strides(g, x.sizes, std::array{&x});
}
// ATen makes these results with empty_like, not with an iterator.
template <uint8_t Accepts>
void dense_like_first(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  like_first(args, g, results, Accepts);
  results[0].strides = preserved_strides(g, args.tensor(0));
}
void gelu_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const std::string& approximate = args.string("approximate");
  VESTA_USER_CHECK(approximate == "none" || approximate == "tanh", "gelu: approximate is none or tanh");
  like_first(args, g, results, kFloatType);
}
void softshrink_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  VESTA_USER_CHECK(args.number("lambd") >= 0, "softshrink: lambd is negative");
  like_first(args, g, results, kFloatType);
}

Scalar softshrink(Body x) {
  const Scalar l = x.number("lambd");
  return select(x[0] > l, x[0] - l, select(x[0] < -l, x[0] + l, x[0] * 0));
}
Scalar hardshrink(Body x) {
  const Scalar l = x.number("lambd");
  return select((x[0] >= -l) & (x[0] <= l), 0, x[0]);
}
Scalar elu(Body x) {
  const double scale = x.value("scale");
  const Scalar negative = expm1(x[0] * x.number("input_scale")) * (x.value("alpha") * scale);
  return select(x[0] <= 0, negative, scale == 1 ? x[0] : x[0] * scale);
}
Scalar softplus(Body x) {
  const Scalar beta = x.number("beta");
  const Scalar scaled = x[0] * beta;
  return select(scaled > x.number("threshold"), x[0], log1p(exp(scaled)) / beta);
}

void glu_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() > 0, "glu needs at least one dimension");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(provably_divisible(x.sizes[d], 2) || g.equal(mod(x.sizes[d], 2), 0), "glu needs an even size");
  TensorType half = x;
  half.sizes[d] = floordiv(x.sizes[d], 2);
  const TensorType* halves[] = {&half, &half};
  TensorType out = half;
  out.strides = iterator_strides(g, half.sizes, halves);
  results.assign(1, out);
}
std::vector<Value*> glu(Builder& b, const Node& node) {
  const auto [first, second] = halves(b, node.input(0), node.named().integer("dim"));
  return finish(b, node, {b("aten::mul.Tensor", {opmath(b, first), b("aten::sigmoid", {opmath(b, second)})})});
}

// output, and the buffer exp(-|x|) that the backward formula reads.
void log_sigmoid_shape(const NodeArgs& args, Guards&, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(0);
  TensorType out = x;
  out.strides = contiguous_strides(x.sizes);
  results.assign(2, out);
}
std::vector<Value*> log_sigmoid(Builder& b, const Node& node) {
  Value* x = opmath(b, node.input(0));
  Value* buffer = b("aten::exp", {b("aten::neg", {b("aten::abs", {x})})});
  Value* low = b("aten::clamp_max", {x, Expr(0)});
  return finish(b, node, {b("aten::sub.Tensor", {low, b("aten::log1p", {buffer})}), buffer});
}

constexpr OpRow kActivationRows[] = {
    activation("aten::relu", body<[](Body x) { return maximum(x[0], 0.0); }>, kRealNumber),
    with_shape(activation("aten::relu6", body<[](Body x) { return minimum(maximum(x[0], 0.0), 6.0); }>, kRealNumber),
               dense_like_first<kRealNumber>),
    with_shape(activation("aten::gelu", body<gelu>), gelu_shape),
    activation("aten::silu", body<[](Body x) { return x[0] / (1 + exp(-x[0])); }>, kFloatType | kComplexType),
    activation("aten::mish", body<[](Body x) { return x[0] * tanh(log1p(exp(x[0]))); }>),
    with_shape(activation("aten::hardtanh", body<hardtanh>, kRealNumber), dense_like_first<kRealNumber>),
    activation("aten::hardswish", body<[](Body x) { return x[0] * minimum(maximum(x[0] + 3, 0.0), 6.0) / 6; }>),
    activation("aten::hardsigmoid", body<[](Body x) { return minimum(maximum(x[0] + 3, 0.0), 6.0) / 6; }>),
    activation("aten::hardshrink", body<hardshrink>),
    with_shape(activation("aten::softshrink", body<softshrink>), softshrink_shape),
    activation("aten::elu", body<elu>),
    activation("aten::leaky_relu",
               body<[](Body x) { return select(x[0] > 0, x[0], x[0] * x.number("negative_slope")); }>),
    with_shape(activation("aten::_prelu_kernel", body<[](Body x) { return select(x[0] > 0, x[0], x[1] * x[0]); }>),
               dense_like_first<kFloatType>),
    activation("aten::softplus", body<softplus>),
    activation("aten::threshold",
               body<[](Body x) { return select(x[0] <= x.number("threshold"), x.number("value"), x[0]); }>,
               kRealNumber),
    composite("aten::log_sigmoid_forward", log_sigmoid_shape, log_sigmoid),
    composite("aten::glu", glu_shape, glu),
};

}  // namespace

std::span<const OpRow> activation_rows() { return kActivationRows; }

}  // namespace vesta::graph
