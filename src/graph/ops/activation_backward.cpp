// Gradients of activation functions, by the formulas of ATen's CPU kernels. The first operand is the incoming gradient.
#include <numbers>

#include "graph/ops/rows.h"
#include "graph/rules/body.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {
namespace {

constexpr OpRow backward(const char* names, PointwiseBody f, uint8_t accepts = kFloatType) {
  return pointwise(names, Promote::Default, f, accepts);
}

Scalar gelu_backward(Body x) {
  const Scalar dy = x[0], v = x[1];
  if (x.args().string("approximate") == "tanh") {
    constexpr double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    constexpr double kappa = 0.044715;
    const Scalar square = v * v;
    const Scalar t = tanh(beta * (v + kappa * (square * v)));
    const Scalar left = 0.5 * v;
    const Scalar right = 1 + t;
    const Scalar inner = beta * (1 + (3 * kappa) * square);
    return dy * (0.5 * right + left * (1 - t * t) * inner);
  }
  constexpr double density = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const Scalar cdf = 0.5 * (1 + erf(v * (1 / std::numbers::sqrt2)));
  const Scalar pdf = density * exp(-0.5 * v * v);
  return dy * (cdf + v * pdf);
}
Scalar silu_backward(Body x) {
  const Scalar s = sigmoid(x[1]);
  return x[0] * s * (1 + x[1] * (1 - s));
}
Scalar mish_backward(Body x) {
  const Scalar s = sigmoid(x[1]);
  const Scalar t = tanh(log1p(exp(x[1])));
  return x[0] * (t + x[1] * s * (1 - t * t));
}
Scalar hardswish_backward(Body x) {
  return select(x[1] <= -3, x[0].like(0), select(x[1] < 3, x[0] * (x[1] / 3 + 0.5), x[0]));
}
Scalar elu_backward(Body x) {
  const double alpha = x.value("alpha"), scale = x.value("scale"), input = x.value("input_scale");
  const double coefficient = alpha * scale;
  const Scalar negative = x.args().boolean("is_result") ? x[0] * input * (x[1] + coefficient)
                                                        : x[0] * (input * coefficient) * exp(x[1] * input);
  return select(x[1] <= 0, negative, x[0] * scale);
}
Scalar softplus_backward(Body x) {
  const Scalar scaled = x[1] * x.number("beta");
  const Scalar z = exp(scaled);
  return select(scaled > x.number("threshold"), x[0], x[0] * z / (z + 1));
}
Scalar shrink_backward(Body x) {
  const Scalar l = x.number("lambd");
  return select((x[1] >= -l) & (x[1] <= l), 0, x[0]);
}
Scalar logit_backward(Body x) {
  const Scalar v = x[1];
  const Scalar inside = x[0] / (v * (1 - v));
  if (!x.has("eps")) return select((v < 0) | (v > 1), v.like(0) / 0, inside);
  const Scalar low = x.number("eps");
  return select((v < low) | (v > 1 - low), 0, inside);
}
Scalar log_sigmoid_backward(Body x) {
  const Scalar negative = x[1] < 0;
  const Scalar bound = select(negative, x[1].like(1), x[1].like(0));
  const Scalar sign = select(negative, x[1].like(1), x[1].like(-1));
  return x[0] * (bound - sign * (x[2] / (1 + x[2])));
}

// ATen's iterator is built over (self, grad).
void self_first(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  std::vector<Arg> swapped(args.all().begin(), args.all().end());
  std::swap(swapped[0], swapped[1]);
  default_shape(backward("aten::leaky_relu_backward", nullptr), NodeArgs(args.schema(), swapped), g, results);
}

void glu_backward_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor(1);
  wrap_dim(g, args.integer("dim"), x.dim());
  results = {contiguous_like(x, x.sizes)};
}
std::vector<Value*> glu_backward(Builder& b, const Node& node) {
  const Expr dim = wrap_dim(node.named().integer("dim"), node.input(1)->type.dim());
  const auto [first, second] = halves(b, node.input(1), dim);
  Value* dy = opmath(b, node.input(0));
  Value* gate = b("aten::sigmoid", {opmath(b, second)});
  Value* of_first = b("aten::mul.Tensor", {dy, gate});
  Value* of_second = b("aten::mul.Tensor", {b("aten::sigmoid_backward", {dy, gate}), opmath(b, first)});
  return finish(b, node, {b("aten::cat", {ValueList{of_first, of_second}, dim})});
}

constexpr OpRow kActivationBackwardRows[] = {
    backward("aten::threshold_backward", body<[](Body x) { return select(x[1] <= x.number("threshold"), 0, x[0]); }>,
             kRealNumber),
    backward("aten::sigmoid_backward", body<[](Body x) { return x[0] * (1 - x[1]) * x[1]; }>,
             kFloatType | kComplexType),
    backward("aten::tanh_backward", body<[](Body x) { return x[0] * (1 - x[1] * x[1]); }>, kFloatType | kComplexType),
    backward("aten::gelu_backward", body<gelu_backward>),
    backward("aten::silu_backward", body<silu_backward>, kFloatType | kComplexType),
    backward("aten::mish_backward", body<mish_backward>),
    backward("aten::hardswish_backward", body<hardswish_backward>),
    backward("aten::hardsigmoid_backward", body<[](Body x) { return select((x[1] > -3) & (x[1] < 3), x[0] / 6, 0); }>),
    backward(
        "aten::hardtanh_backward",
        body<[](Body x) { return select((x[1] <= x.number("min_val")) | (x[1] >= x.number("max_val")), 0, x[0]); }>),
    with_shape(backward("aten::leaky_relu_backward",
                        body<[](Body x) { return select(x[1] > 0, x[0], x[0] * x.number("negative_slope")); }>),
               self_first),
    backward("aten::elu_backward", body<elu_backward>),
    backward("aten::softplus_backward", body<softplus_backward>),
    backward("aten::hardshrink_backward aten::softshrink_backward", body<shrink_backward>),
    backward("aten::logit_backward", body<logit_backward>),
    backward("aten::log_sigmoid_backward", body<log_sigmoid_backward>),
    composite("aten::glu_backward", glu_backward_shape, glu_backward),
};

}  // namespace

std::span<const OpRow> activation_backward_rows() { return kActivationBackwardRows; }

}  // namespace vesta::graph
