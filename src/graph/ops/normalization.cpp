// layer_norm, rms_norm, group_norm and batch_norm. Statistics are computed in the opmath type, in two passes.
#include <limits>

#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/norm_forms.h"

namespace vesta::graph {
namespace {

const TensorType* maybe(const NodeArgs& args, std::string_view name) {
  return args.has(name) ? &args.tensor(name) : nullptr;
}

// Statistics have the type of the parameters where the input is half precision and the parameters are fp32.
DType statistics_type(const NodeArgs& args, DType input) {
  for (const char* name : {"weight", "bias"})
    if (const TensorType* p = maybe(args, name)) return p->dtype == input ? input : p->dtype;
  return input;
}

size_t check_normalized(const NodeArgs& args, Guards& g) {
  const TensorType& x = args.tensor(0);
  const IntList& shape = args.integers("normalized_shape");
  VESTA_USER_CHECK(
      !shape.empty() && shape.size() <= x.dim() && same_sizes(g, shape, std::span(x.sizes).last(shape.size())),
      "normalized_shape does not fit the input");
  for (const char* name : {"weight", "bias"})
    if (const TensorType* p = maybe(args, name))
      VESTA_USER_CHECK(same_sizes(g, p->sizes, shape), "{} does not have the normalized shape", name);
  return x.dim() - shape.size();
}

void native_layer_norm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(is_float(x.dtype), "layer_norm needs a floating point type");
  const size_t axis = check_normalized(args, g);
  Sizes outer = x.sizes;
  for (size_t i = axis; i < outer.size(); ++i) outer[i] = 1;
  // CUDA's kernels return statistics in the type they compute in.
  const DType t = x.device.type == DeviceType::CUDA ? opmath(x.dtype) : statistics_type(args, x.dtype);
  results = {contiguous_like(x, x.sizes), contiguous_like(x, outer, t), contiguous_like(x, outer, t)};
}
void layer_norm(const NodeArgs& args, Guards& g, Results& results) {
  native_layer_norm(args, g, results);
  results.resize(1);
}
void rms_norm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  if (is_complex(x.dtype)) VESTA_UNSUPPORTED("rms_norm does not support complex numbers");
  VESTA_USER_CHECK(is_float(x.dtype), "rms_norm needs a floating point type");
  check_normalized(args, g);
  if (args.has("weight") && is_empty(g, x.sizes)) VESTA_UNSUPPORTED("rms_norm does not support empty tensors");
  results = {in_format(x, x.sizes, suggest_memory_format(g, x))};
}

std::vector<Value*> layer_norm_form(Builder& b, const Node& node) {
  if (numel(node.input(0)->type).is_constant(0)) return {};
  const NodeArgs args = node.named();
  Value* x = opmath(b, node.input(0));
  const size_t n = x->type.dim();
  const IntList dims = range(n - args.integers("normalized_shape").size(), n);
  const Standardized s = standardize(b, x, dims, args.number("eps"));
  Value* out = scale_and_shift(b, s.normal, given(node, "weight"), given(node, "bias"));
  if (node.results.size() == 1) return finish(b, node, {out});
  return finish(b, node, {out, s.mean, s.rstd});
}

std::vector<Value*> rms_norm_form(Builder& b, const Node& node) {
  if (numel(node.input(0)->type).is_constant(0)) return {};
  const NodeArgs args = node.named();
  const DType t = node.input(0)->type.dtype;
  Value* x = opmath(b, node.input(0));
  const size_t n = x->type.dim();
  const IntList dims = range(n - args.integers("normalized_shape").size(), n);
  const double eps = args.has("eps")   ? args.number("eps")
                     : t == DType::F64 ? std::numeric_limits<double>::epsilon()
                                       : static_cast<double>(std::numeric_limits<float>::epsilon());
  Value* square = mean_keeping(b, b("aten::mul.Tensor", {x, x}), dims);
  Value* scale = b("aten::rsqrt", {b("aten::add.Scalar", {square, eps})});
  Value* out = b("aten::mul.Tensor", {x, scale});
  return finish(b, node, {scale_and_shift(b, out, given(node, "weight"), nullptr)});
}

// ---- group_norm ----

void native_group_norm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(is_float(x.dtype), "group_norm needs a floating point type");
  const DType t = statistics_type(args, x.dtype);
  const Sizes stats = {args.integer("N"), args.integer("group")};
  results = {in_format(x, x.sizes, suggest_memory_format(g, x)), contiguous_like(x, stats, t),
             contiguous_like(x, stats, t)};
}
void group_norm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(is_float(x.dtype) && x.dim() >= 2, "group_norm needs floats of at least two dimensions");
  const Expr groups = args.integer("num_groups");
  VESTA_USER_CHECK(!groups.is_constant(0) && g.equal(mod(x.sizes[1], groups), 0),
                   "the number of channels is not a multiple of the number of groups");
  for (const char* name : {"weight", "bias"})
    if (const TensorType* p = maybe(args, name))
      VESTA_USER_CHECK(same_sizes(g, p->sizes, {{x.sizes[1]}}), "{} needs one element per channel", name);
  results = {in_format(x, x.sizes, suggest_memory_format(g, x))};
}
std::vector<Value*> group_norm_form(Builder& b, const Node& node) {
  Value* input = node.input(0);
  if (numel(input->type).is_constant(0)) return {};
  const NodeArgs args = node.named();
  const Expr groups = args.integer(node.results.size() == 1 ? "num_groups" : "group");
  Value* x = opmath(b, input);
  // N, groups, channels of a group, the rest
  Sizes split = {x->type.sizes[0], groups, floordiv(x->type.sizes[1], groups)};
  split.insert(split.end(), x->type.sizes.begin() + 2, x->type.sizes.end());
  Value* parted = reshaped(b, x, split);
  const Standardized s = standardize(b, parted, range(2, split.size()), args.number("eps"));
  const auto channels = [&](Value* p) -> Value* {
    if (!p) return nullptr;
    Sizes shape(split.size(), Expr(1));
    shape[1] = split[1];
    shape[2] = split[2];
    return reshaped(b, p, shape);
  };
  Value* out = scale_and_shift(b, s.normal, channels(given(node, "weight")), channels(given(node, "bias")));
  out = reshaped(b, out, x->type.sizes);
  if (node.results.size() == 1) return finish(b, node, {out});
  const Sizes stats = {split[0], split[1]};
  return finish(b, node, {out, reshaped(b, s.mean, stats), reshaped(b, s.rstd, stats)});
}

// ---- batch_norm ----

bool trains(const NodeArgs& args) { return args.schema().index_of("training") >= 0 && args.boolean("training"); }

// The first of these formats in which x is contiguous, as ATen's kernels choose.
MemoryFormat format_of_contiguous(Guards& g, const TensorType& x) {
  for (const MemoryFormat f : {MemoryFormat::Contiguous, MemoryFormat::ChannelsLast3d, MemoryFormat::ChannelsLast}) {
    const size_t dims = f == MemoryFormat::ChannelsLast3d ? 5 : 4;
    if ((f == MemoryFormat::Contiguous || x.dim() == dims) && is_contiguous(g, x, f)) return f;
  }
  return suggest_memory_format(g, x);
}

void batch_norm(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(is_float(x.dtype) && x.dim() >= 2, "batch_norm needs floats of at least two dimensions");
  const Expr channels = x.sizes[1];
  for (const char* name : {"weight", "bias", "running_mean", "running_var"})
    if (const TensorType* p = maybe(args, name))
      VESTA_USER_CHECK(same_sizes(g, p->sizes, {{channels}}), "{} needs one element per channel", name);
  DType t = statistics_type(args, x.dtype);
  if (const TensorType* p = maybe(args, "running_mean"))
    if (p->dtype != x.dtype) t = p->dtype;
  if (x.device.type == DeviceType::CUDA) t = opmath(x.dtype);
  // Outside of training CUDA's kernels return values derived from the running statistics.
  const Sizes stats = {trains(args) || x.device.type == DeviceType::CUDA ? channels : Expr(0)};
  results = {in_format(x, x.sizes, format_of_contiguous(g, x)), contiguous_like(x, stats, t),
             contiguous_like(x, stats, t)};
}
void batch_norm_functional(const NodeArgs& args, Guards& g, Results& results) {
  batch_norm(args, g, results);
  results.push_back(contiguous_like(args.tensor("running_mean"), args.tensor("running_mean").sizes));
  results.push_back(contiguous_like(args.tensor("running_var"), args.tensor("running_var").sizes));
}

Value* per_channel(Builder& b, Value* v, size_t ndim) { return v ? along(b, v, 1, ndim) : nullptr; }

// x * (weight * rstd) + (bias - mean * weight * rstd), as ATen's inference kernel computes it.
std::vector<Value*> batch_norm_inference(Builder& b, const Node& node) {
  Value* input = node.input(0);
  Value* mean = given(node, "running_mean");
  Value* var = given(node, "running_var");
  if (!mean || !var) return {};
  const DType t = opmath(input->type.dtype);
  Value* rstd = b("aten::rsqrt", {b("aten::add.Scalar", {cast(b, var, t), node.named().number("eps")})});
  Value* w = given(node, "weight");
  Value* scale = w ? b("aten::mul.Tensor", {rstd, cast(b, w, t)}) : rstd;
  Value* offset = b("aten::mul.Tensor", {cast(b, mean, t), scale});
  Value* bias = given(node, "bias");
  Value* shift = bias ? b("aten::sub.Tensor", {cast(b, bias, t), offset}) : b("aten::neg", {offset});
  const size_t n = input->type.dim();
  Value* out = b("aten::mul.Tensor", {cast(b, input, t), per_channel(b, scale, n)});
  out = b("aten::add.Tensor", {out, per_channel(b, shift, n)});
  std::vector<Value*> values = {out};
  for (size_t i = 1; i < node.results.size(); ++i) {
    const TensorType& r = node.results[i]->type;
    if (i < 3 && r.device.type == DeviceType::CUDA) {
      values.push_back(cast(b, i == 1 ? cast(b, mean, t) : rstd, r.dtype));
    } else if (i < 3) {
      values.push_back(b("aten::full", {IntList(r.sizes), Expr(0)}, {{"dtype", r.dtype}, {"device", r.device}}));
    } else {
      values.push_back(i == 3 ? mean : var);
    }
  }
  return finish(b, node, values);
}

std::vector<Value*> batch_norm_form(Builder& b, const Node& node) {
  Value* input = node.input(0);
  const NodeArgs args = node.named();
  if (numel(input->type).is_constant(0)) return {};
  if (!trains(args)) return batch_norm_inference(b, node);
  // Forms that write the running statistics in place stay calls. The functional form returns them.
  const bool functional = node.results.size() == 5;
  if (!functional && (given(node, "running_mean") || given(node, "running_var"))) return {};
  Value* x = opmath(b, input);
  const size_t n = x->type.dim();
  const Standardized s = standardize_batch(b, x, args.number("eps"));
  Value* out =
      scale_and_shift(b, s.normal, per_channel(b, given(node, "weight"), n), per_channel(b, given(node, "bias"), n));
  const Sizes channels = {x->type.sizes[1]};
  Value* mean = reshaped(b, s.mean, channels);
  Value* rstd = reshaped(b, s.rstd, channels);
  if (!functional) return finish(b, node, {out, mean, rstd});
  const double momentum = args.number("momentum");
  const auto moved = [&](std::string_view name, Value* now) {
    Value* old = given(node, name);
    Value* kept = b("aten::mul.Scalar", {opmath(b, old), 1 - momentum});
    return b("aten::add.Tensor", {kept, now}, {{"alpha", momentum}});
  };
  const Expr count = elements_of_channel(x->type);
  Value* variance = b("aten::mul.Scalar", {reshaped(b, s.variance, channels), count});
  variance = b("aten::div.Scalar", {variance, count - 1});
  return finish(b, node, {out, mean, rstd, moved("running_mean", mean), moved("running_var", variance)});
}

void weight_norm(const NodeArgs& args, Guards&, Results& results) {
  results = {contiguous_like(args.tensor(0), args.tensor(0).sizes),
             contiguous_like(args.tensor(1), args.tensor(1).sizes)};
}

constexpr OpRow kNormalizationRows[] = {
    composite("aten::native_layer_norm", native_layer_norm, layer_norm_form),
    composite("aten::layer_norm", layer_norm, layer_norm_form),
    composite("aten::rms_norm", rms_norm, rms_norm_form),
    composite("aten::native_group_norm", native_group_norm, group_norm_form, 0, LayoutRule::Follows),
    composite("aten::group_norm", group_norm, group_norm_form, 0, LayoutRule::Follows),
    {.names = "aten::native_batch_norm aten::_native_batch_norm_legit_no_training",
     .family = Family::Composite,
     .shape = batch_norm,
     .decompose = batch_norm_form,
     .role = Role::BatchNorm,
     .layout = LayoutRule::Follows},
    composite("aten::_native_batch_norm_legit.no_stats", batch_norm, batch_norm_form, 0, LayoutRule::Follows),
    composite("aten::_native_batch_norm_legit_functional", batch_norm_functional, batch_norm_form, 0,
              LayoutRule::Follows),
    composite("aten::native_layer_norm_backward", native_layer_norm_backward, layer_norm_backward_form),
    composite("aten::native_group_norm_backward", native_group_norm_backward, group_norm_backward_form, 0,
              LayoutRule::Follows),
    composite("aten::native_batch_norm_backward", native_batch_norm_backward, batch_norm_backward_form, 0,
              LayoutRule::Follows),
    call("aten::_weight_norm_interface", weight_norm),
};

}  // namespace

std::span<const OpRow> normalization_rows() { return kNormalizationRows; }

}  // namespace vesta::graph
