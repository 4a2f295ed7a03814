#include "graph/rules/norm_forms.h"

#include <algorithm>
#include <optional>

#include "graph/rules/decompose.h"

namespace vesta::graph {

namespace {

constexpr int64_t kEnoughParts = 256;       // blocks of threads, one for a part of kPartChannels channels
constexpr int64_t kPartChannels = 64;       // as many as a block of threads reads side by side
constexpr int64_t kLeastElements = 32;      // of a channel in a part
constexpr int64_t kManyElements = 1 << 16;  // smaller tensors are reduced by one kernel, without parts

Value* sum_dropping(Builder& b, Value* v, const IntList& dims) {
  return dims.empty() ? v : b("aten::sum.dim_IntList", {v, dims, false}, {{"dtype", v->type.dtype}});
}

// Every dimension of n but the channels'.
IntList all_but_channels(size_t n) {
  IntList dims = range(2, n);
  dims.insert(dims.begin(), 0);
  return dims;
}

// How a GPU divides the channels of a tensor in channels-last: one kernel reads the tensor once and reduces each part
// of a channel; a second kernel combines the parts.
struct Parts {
  Sizes sizes;    // of a view of the tensor: batch, channels, parts of a sample, elements...
  IntList inner;  // the view's dimensions inside of a part
};

std::optional<Parts> parts_of(const TensorType& x) {
  const size_t n = x.dim();
  const auto constant = [](Expr e) { return e.is_constant() && e.constant() > 0; };
  if (x.device.type != DeviceType::CUDA || n < 3 || !std::ranges::all_of(x.sizes, constant)) return std::nullopt;
  if (!x.strides[1].is_constant(1) || x.sizes[1].constant() < 2 || numel(x).constant() < kManyElements)
    return std::nullopt;
  const int64_t batch = x.sizes[0].constant(), height = x.sizes[2].constant();
  const int64_t blocks = batch * ((x.sizes[1].constant() + kPartChannels - 1) / kPartChannels);
  const int64_t elements = numel(x).constant() / batch / x.sizes[1].constant();
  int64_t parts = 1;
  for (int64_t d = 2; blocks * parts < kEnoughParts && d <= height && elements / d >= kLeastElements; ++d)
    if (height % d == 0) parts = d;
  if (batch * parts < 2 || elements / parts < kLeastElements) return std::nullopt;
  Parts out{x.sizes, range(3, n + 1)};
  out.sizes[2] = parts;
  out.sizes.insert(out.sizes.begin() + 3, Expr(height / parts));
  return out;
}

// The sums of the channels (dimension 1).
Value* channel_sums(Builder& b, Value* v) {
  const std::optional<Parts> parts = parts_of(v->type);
  if (!parts) return sum_dropping(b, v, all_but_channels(v->type.dim()));
  return sum_dropping(b, sum_dropping(b, reshaped(b, v, parts->sizes), parts->inner), {0, 2});
}

}  // namespace

Expr elements_of_channel(const TensorType& x) {
  Expr count = 1;
  for (const Expr d : all_but_channels(x.dim())) count = count * x.sizes[static_cast<size_t>(d.constant())];
  return count;
}

Standardized standardize(Builder& b, Value* x, const IntList& dims, double eps) {
  Value* mean = mean_keeping(b, x, dims);
  Value* centered = b("aten::sub.Tensor", {x, mean});
  Value* variance = mean_keeping(b, b("aten::mul.Tensor", {centered, centered}), dims);
  Value* rstd = b("aten::rsqrt", {b("aten::add.Scalar", {variance, eps})});
  return {b("aten::mul.Tensor", {centered, rstd}), mean, rstd, variance};
}

Standardized standardize_batch(Builder& b, Value* x, double eps) {
  const size_t n = x->type.dim();
  const std::optional<Parts> parts = parts_of(x->type);
  if (!parts) return standardize(b, x, all_but_channels(n), eps);
  Value* view = reshaped(b, x, parts->sizes);
  Value* means = mean_keeping(b, view, parts->inner);
  Value* apart = b("aten::sub.Tensor", {view, means});
  Value* variances = mean_keeping(b, b("aten::mul.Tensor", {apart, apart}), parts->inner);
  const IntList outer = {0, 2};
  Value* mean = mean_keeping(b, means, outer);
  Value* between = b("aten::sub.Tensor", {means, mean});
  Value* spread = b("aten::add.Tensor", {variances, b("aten::mul.Tensor", {between, between})});
  Sizes channels(n, Expr(1));
  channels[1] = x->type.sizes[1];
  Value* variance = reshaped(b, mean_keeping(b, spread, outer), channels);
  mean = reshaped(b, mean, channels);
  Value* rstd = b("aten::rsqrt", {b("aten::add.Scalar", {variance, eps})});
  return {b("aten::mul.Tensor", {b("aten::sub.Tensor", {x, mean}), rstd}), mean, rstd, variance};
}

Value* scale_and_shift(Builder& b, Value* v, Value* weight, Value* bias) {
  if (weight) v = b("aten::mul.Tensor", {v, cast(b, weight, v->type.dtype)});
  if (bias) v = b("aten::add.Tensor", {v, cast(b, bias, v->type.dtype)});
  return v;
}

std::vector<TensorType> only_asked(const NodeArgs& args, std::vector<TensorType> gradients) {
  const auto& mask = std::get<std::vector<bool>>(args.get("output_mask"));
  for (size_t i = 0; i < gradients.size(); ++i)
    if (!mask[i]) gradients[i] = {.dtype = DType::Other, .sizes = {}, .strides = {}, .device = {}};
  return gradients;
}

namespace {

// The gradients of the input, which has type x, and of weight and bias.
std::vector<TensorType> gradients(const NodeArgs& args, const TensorType& x, const Sizes& parameters) {
  const TensorType parameter =
      contiguous_like(args.has("weight") ? args.tensor("weight") : args.tensor("input"), parameters);
  return only_asked(args, {x, parameter, parameter});
}
TensorType in_own_format(Guards& g, const TensorType& x) { return in_format(x, x.sizes, suggest_memory_format(g, x)); }
// The gradient of the input of a norm over `inner` whose scaled gradient this is.
Value* input_gradient(Builder& b, Value* scaled, Value* normal, Value* rstd, const IntList& inner) {
  Value* mean = mean_keeping(b, scaled, inner);
  Value* part = b("aten::mul.Tensor", {normal, mean_keeping(b, b("aten::mul.Tensor", {scaled, normal}), inner)});
  Value* rest = b("aten::sub.Tensor", {b("aten::sub.Tensor", {scaled, mean}), part});
  return b("aten::mul.Tensor", {rest, rstd});
}
// Only the defined results are computed.
std::vector<Value*> finish_masked(Builder& b, const Node& node, std::vector<Value*> values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!node.results[i]) values[i] = nullptr;
  return finish(b, node, values);
}

}  // namespace

void native_layer_norm_backward(const NodeArgs& args, Guards&, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor("input");
  results = gradients(args, contiguous_like(x, x.sizes), args.integers("normalized_shape"));
}
void native_group_norm_backward(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  results = gradients(args, in_own_format(g, args.tensor("input")), {args.integer("C")});
}
void native_batch_norm_backward(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& x = args.tensor("input");
  results = gradients(args, in_own_format(g, x), {x.sizes[1]});
}

std::vector<Value*> layer_norm_backward_form(Builder& b, const Node& node) {
  if (numel(node.input(1)->type).is_constant(0)) return {};
  const DType t = opmath(node.input(1)->type.dtype);
  Value* grad = cast(b, node.input(0), t);
  Value* x = cast(b, node.input(1), t);
  const size_t n = x->type.dim();
  const size_t axis = n - node.named().integers("normalized_shape").size();
  const IntList inner = range(axis, n), outer = range(0, axis);
  Value* rstd = cast(b, given(node, "rstd"), t);
  Value* normal = b("aten::mul.Tensor", {b("aten::sub.Tensor", {x, cast(b, given(node, "mean"), t)}), rstd});
  std::vector<Value*> values(3, nullptr);
  if (node.results[0]) {
    Value* scaled = scale_and_shift(b, grad, given(node, "weight"), nullptr);
    values[0] = input_gradient(b, scaled, normal, rstd, inner);
  }
  if (node.results[1]) values[1] = sum_dropping(b, b("aten::mul.Tensor", {grad, normal}), outer);
  if (node.results[2]) values[2] = sum_dropping(b, grad, outer);
  return finish_masked(b, node, values);
}

std::vector<Value*> group_norm_backward_form(Builder& b, const Node& node) {
  const TensorType& type = node.input(1)->type;
  if (numel(type).is_constant(0)) return {};
  const DType t = opmath(type.dtype);
  // N, groups, channels of a group, the rest
  const Expr groups = node.named().integer("group");
  Sizes split = {type.sizes[0], groups, floordiv(type.sizes[1], groups)};
  split.insert(split.end(), type.sizes.begin() + 2, type.sizes.end());
  const size_t n = split.size();
  const auto parted = [&](Value* v) { return reshaped(b, cast(b, v, t), split); };
  const auto statistic = [&](const char* name) {
    Sizes shape(n, Expr(1));
    shape[0] = split[0];
    shape[1] = split[1];
    return reshaped(b, cast(b, given(node, name), t), shape);
  };
  Value* grad = parted(node.input(0));
  Value* rstd = statistic("rstd");
  Value* normal = b("aten::mul.Tensor", {b("aten::sub.Tensor", {parted(node.input(1)), statistic("mean")}), rstd});
  const IntList inner = range(2, n);
  std::vector<Value*> values(3, nullptr);
  if (node.results[0]) {
    Value* scaled = grad;
    if (Value* weight = given(node, "weight")) {
      Sizes shape(n, Expr(1));
      shape[1] = split[1];
      shape[2] = split[2];
      scaled = b("aten::mul.Tensor", {grad, reshaped(b, cast(b, weight, t), shape)});
    }
    values[0] = reshaped(b, input_gradient(b, scaled, normal, rstd, inner), type.sizes);
  }
  IntList outer = range(3, n);
  outer.insert(outer.begin(), 0);
  const auto of_channels = [&](Value* v) { return reshaped(b, sum_dropping(b, v, outer), {type.sizes[1]}); };
  if (node.results[1]) values[1] = of_channels(b("aten::mul.Tensor", {grad, normal}));
  if (node.results[2]) values[2] = of_channels(grad);
  return finish_masked(b, node, values);
}

std::vector<Value*> batch_norm_backward_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  if (numel(node.input(1)->type).is_constant(0)) return {};
  const DType t = opmath(node.input(1)->type.dtype);
  Value* grad = cast(b, node.input(0), t);
  Value* x = cast(b, node.input(1), t);
  const size_t n = x->type.dim();
  const bool train = args.boolean("train");
  Value* mean = given(node, train ? "save_mean" : "running_mean");
  Value* spread = given(node, train ? "save_invstd" : "running_var");
  if (!mean || !spread) return {};
  mean = along(b, cast(b, mean, t), 1, n);
  spread = along(b, cast(b, spread, t), 1, n);
  Value* rstd = train ? spread : b("aten::rsqrt", {b("aten::add.Scalar", {spread, args.number("eps")})});
  Value* normal = b("aten::mul.Tensor", {b("aten::sub.Tensor", {x, mean}), rstd});
  Value* const grad_sum = channel_sums(b, grad);
  Value* const weighted_sum = channel_sums(b, b("aten::mul.Tensor", {grad, normal}));
  std::vector<Value*> values = {nullptr, weighted_sum, grad_sum};
  if (node.results[0]) {
    Value* weight = given(node, "weight");
    Value* scale = weight ? b("aten::mul.Tensor", {rstd, along(b, cast(b, weight, t), 1, n)}) : rstd;
    Value* rest = grad;
    if (train) {
      const Expr count = elements_of_channel(x->type);
      const auto mean_of = [&](Value* sum) { return b("aten::div.Scalar", {along(b, sum, 1, n), count}); };
      Value* part = b("aten::mul.Tensor", {normal, mean_of(weighted_sum)});
      rest = b("aten::sub.Tensor", {b("aten::sub.Tensor", {grad, mean_of(grad_sum)}), part});
    }
    values[0] = b("aten::mul.Tensor", {rest, scale});
  }
  return finish_masked(b, node, values);
}

}  // namespace vesta::graph
