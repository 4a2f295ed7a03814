// Losses and their gradients.
#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

enum Reduction { kNone = 0, kMean = 1 };  // 2: the sum

int64_t reduction_of(const NodeArgs& args) { return args.integer("reduction").constant(); }

// ---- elementwise losses ----

void pairwise(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& a = args.tensor(0);
  const TensorType& c = args.tensor(1);
  const DType t = ResultType().add(a).add(c).get();
  VESTA_USER_CHECK(is_float(t) || is_complex(t), "the loss needs a floating point type");
  TensorType out{.dtype = t, .sizes = broadcast(g, a.sizes, c.sizes), .strides = {}, .device = a.device};
  if (reduction_of(args) != kNone) {
    out.sizes.clear();
  } else {
    const TensorType* operands[] = {&a, &c};
    out.strides = iterator_strides(g, out.sizes, operands);
  }
  results = {out};
}

// The distance between complex numbers is real.
void l1_shape(const NodeArgs& args, Guards& g, Results& results) {
  pairwise(args, g, results);
  results[0].dtype = real_of(results[0].dtype);
}
void smooth_l1_shape(const NodeArgs& args, Guards& g, Results& results) {
  VESTA_USER_CHECK(args.number("beta") >= 0, "smooth_l1_loss: beta is negative");
  pairwise(args, g, results);
}
void huber_shape(const NodeArgs& args, Guards& g, Results& results) {
  VESTA_USER_CHECK(args.number("delta") > 0, "huber_loss: delta is not positive");
  if (args.tensor(0).dtype != args.tensor(1).dtype) VESTA_UNSUPPORTED("huber_loss: the operands have different types");
  pairwise(args, g, results);
}

Value* total(Builder& b, Value* v) { return b("aten::sum", {v}, {{"dtype", v->type.dtype}}); }

std::vector<Value*> reduced(Builder& b, const Node& node, Value* each) {
  const int64_t reduction = reduction_of(node.named());
  if (reduction != kNone) {
    const Expr count = numel(each->type);
    each = total(b, each);
    if (reduction == kMean) each = b("aten::div.Scalar", {each, count});
  }
  return finish(b, node, {each});
}
struct Pair {
  Value* a;
  Value* c;
};
bool plain(const Node& node) { return is_float(node.results[0]->type.dtype); }
Pair operands(Builder& b, const Node& node) {
  const DType t = opmath(node.results[0]->type.dtype);
  return {cast(b, node.input(0), t), cast(b, node.input(1), t)};
}
std::vector<Value*> mse(Builder& b, const Node& node) {
  if (!plain(node)) return {};
  const Pair p = operands(b, node);
  Value* d = b("aten::sub.Tensor", {p.a, p.c});
  return reduced(b, node, b("aten::mul.Tensor", {d, d}));
}
std::vector<Value*> l1(Builder& b, const Node& node) {
  if (is_complex(node.input(0)->type.dtype) || is_complex(node.input(1)->type.dtype)) return {};
  const Pair p = operands(b, node);
  return reduced(b, node, b("aten::abs", {b("aten::sub.Tensor", {p.a, p.c})}));
}
std::vector<Value*> smooth_l1(Builder& b, const Node& node) {
  if (!plain(node)) return {};
  const double beta = node.named().number("beta");
  const Pair p = operands(b, node);
  Value* z = b("aten::abs", {b("aten::sub.Tensor", {p.a, p.c})});
  if (beta == 0) return reduced(b, node, z);
  Value* square = b("aten::div.Scalar", {b("aten::mul.Scalar", {b("aten::mul.Tensor", {z, z}), 0.5}), beta});
  Value* linear = b("aten::sub.Scalar", {z, 0.5 * beta});
  return reduced(b, node, b("aten::where.self", {b("aten::lt.Scalar", {z, beta}), square, linear}));
}
std::vector<Value*> huber(Builder& b, const Node& node) {
  if (!plain(node)) return {};
  const double delta = node.named().number("delta");
  const Pair p = operands(b, node);
  Value* z = b("aten::abs", {b("aten::sub.Tensor", {p.a, p.c})});
  Value* square = b("aten::mul.Scalar", {b("aten::mul.Tensor", {z, z}), 0.5});
  Value* linear = b("aten::mul.Scalar", {b("aten::sub.Scalar", {z, 0.5 * delta}), delta});
  return reduced(b, node, b("aten::where.self", {b("aten::le.Scalar", {z, delta}), square, linear}));
}

// grad * 2 * (a - c) [/ n]
void pairwise_backward(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& in = args.tensor(1);
  const Sizes sizes = broadcast(g, broadcast(g, args.tensor(0).sizes, in.sizes), args.tensor(2).sizes);
  // ATen starts from zeros_like(input).
  results = {sizes == in.sizes ? preserved(g, in) : contiguous_like(in, sizes)};
}
std::vector<Value*> mse_backward(Builder& b, const Node& node) {
  if (!plain(node)) return {};
  const DType t = opmath(node.results[0]->type.dtype);
  Value* x = cast(b, node.input(1), t);
  Value* d = b("aten::sub.Tensor", {x, cast(b, node.input(2), t)});
  d = b("aten::mul.Scalar", {d, 2.0});
  if (reduction_of(node.named()) == kMean) d = b("aten::div.Scalar", {d, numel(x->type)});
  return finish(b, node, {b("aten::mul.Tensor", {d, cast(b, node.input(0), t)})});
}

// log(1 + exp(-y x)): the computation is the eager one, and so are its infinities.
void soft_margin_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(is_float(x.dtype), "soft_margin_loss needs a floating point type");
  VESTA_USER_CHECK(same_sizes(g, broadcast(g, x.sizes, args.tensor(1).sizes), x.sizes),
                   "soft_margin_loss: the target is larger than the input");
  results = {reduction_of(args) == kNone ? preserved(g, x) : contiguous_like(x, {})};
}
std::vector<Value*> soft_margin(Builder& b, const Node& node) {
  const Pair p = operands(b, node);
  Value* z = b("aten::exp", {b("aten::mul.Tensor", {b("aten::neg", {p.a}), p.c})});
  return reduced(b, node, b("aten::log", {b("aten::add.Scalar", {z, Expr(1), Expr(1)})}));
}
void soft_margin_backward_shape(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(1);
  const TensorType& y = args.tensor(2);
  const TensorType* const both[] = {&y, &x};
  TensorType z{.dtype = x.dtype, .sizes = x.sizes, .strides = iterator_strides(g, x.sizes, both), .device = x.device};
  const TensorType* const factors[] = {&y, &z};
  z.strides = iterator_strides(g, x.sizes, factors);
  results = {z};
}
std::vector<Value*> soft_margin_backward(Builder& b, const Node& node) {
  const DType t = opmath(node.results[0]->type.dtype);
  Value* x = cast(b, node.input(1), t);
  Value* y = cast(b, node.input(2), t);
  Value* z = b("aten::exp", {b("aten::mul.Tensor", {b("aten::neg", {y}), x})});
  Value* d = b("aten::neg", {b("aten::mul.Tensor", {y, z})});
  if (reduction_of(node.named()) == kMean) d = b("aten::div.Scalar", {d, numel(x->type)});
  d = b("aten::div.Tensor", {d, b("aten::add.Scalar", {z, Expr(1), Expr(1)})});
  return finish(b, node, {b("aten::mul.Tensor", {d, cast(b, node.input(0), t)})});
}

// ---- nll_loss and cross_entropy ----

void nll_forward(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& target = args.tensor(1);
  VESTA_USER_CHECK(
      x.dim() >= 1 && x.dim() <= 2 && target.dim() + 1 == x.dim() + (x.dim() == 1 && target.dim() == 1 ? 1 : 0),
      "nll_loss: the input has one or two dimensions, the target one less");
  VESTA_USER_CHECK(is_float(x.dtype) && is_integral(target.dtype), "nll_loss needs floats and integer targets");
  if (x.dim() == 2) VESTA_USER_CHECK(g.equal(x.sizes[0], target.sizes[0]), "nll_loss: batch sizes differ");
  const bool each = reduction_of(args) == kNone && x.dim() == 2;
  results = {contiguous_like(x, each ? Sizes{x.sizes[0]} : Sizes{}), contiguous_like(x, {})};
}
void nll_backward(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor("self");
  results = {contiguous_like(x, x.sizes)};
}

// The classes' weights in the shape of x, or nullptr.
Value* class_weights(Builder& b, const Node& node, Value* x, size_t dim) {
  Value* w = given(node, "weight");
  return w ? along(b, cast(b, w, x->type.dtype), dim, x->type.dim()) : nullptr;
}

// -x[target], 0 for rows of `ignore_index`, and the weight of each row.
struct TargetLoss {
  Value* loss;    // 0 where ignored
  Value* weight;  // 0 where ignored
  Value* kept;    // Bool, with the class dimension
};
TargetLoss target_loss(Builder& b, const Node& node, Value* x, size_t dim) {
  const NodeArgs args = node.named();
  const Expr d = static_cast<int64_t>(dim);
  Value* target = std::get<Value*>(args.get("target"));
  if (target->type.dtype != DType::I64) target = cast(b, target, DType::I64);
  Value* index = b("aten::unsqueeze", {target, d});
  Value* kept = b("aten::ne.Scalar", {index, args.integer("ignore_index")});
  Value* dropped = b("aten::logical_not", {kept});
  index = b("aten::masked_fill.Scalar", {index, dropped, Expr(0)});
  Value* weights = class_weights(b, node, x, dim);
  Value* weight = nullptr;
  if (weights) {
    weights = b("aten::expand", {weights, IntList(x->type.sizes)});
    weight = b("aten::masked_fill.Scalar", {b("aten::gather", {weights, d, index}), dropped, Expr(0)});
  } else {
    weight = cast(b, kept, x->type.dtype);
  }
  Value* loss = b("aten::neg", {b("aten::gather", {x, d, index})});
  if (weights) loss = b("aten::mul.Tensor", {loss, weight});
  return {b("aten::masked_fill.Scalar", {loss, dropped, Expr(0)}), weight, kept};
}

std::vector<Value*> nll_form(Builder& b, const Node& node) {
  Value* x = node.input(0);
  if (x->type.dim() != 2 || node.input(1)->type.dim() != 1) return {};
  x = opmath(b, x);
  const TargetLoss p = target_loss(b, node, x, 1);
  const int64_t reduction = reduction_of(node.named());
  Value* weight = total(b, p.weight);
  if (reduction == kNone) {
    Value* none = b("aten::full", {IntList{}, Expr(0)}, {{"dtype", x->type.dtype}, {"device", x->type.device}});
    return finish(b, node, {b("aten::squeeze.dim", {p.loss, Expr(1)}), none});
  }
  Value* loss = total(b, p.loss);
  if (reduction == kMean) loss = b("aten::div.Tensor", {loss, weight});
  return finish(b, node, {loss, weight});
}

std::vector<Value*> nll_backward_form(Builder& b, const Node& node) {
  Value* input = node.input(1);
  if (input->type.dim() != 2 || node.input(2)->type.dim() != 1) return {};
  const NodeArgs args = node.named();
  const DType t = opmath(input->type.dtype);
  Value* target = b("aten::unsqueeze", {cast(b, node.input(2), DType::I64), Expr(1)});
  Value* classes = b("aten::arange.start_step", {Expr(0), input->type.sizes[1], Expr(1)},
                     {{"dtype", DType::I64}, {"device", input->type.device}});
  Value* kept = b("aten::ne.Scalar", {target, args.integer("ignore_index")});
  Value* hit = b("aten::logical_and", {b("aten::eq.Tensor", {target, classes}), kept});
  Value* grad = b("aten::neg", {cast(b, node.input(0), t)});
  if (reduction_of(args) == kNone) grad = b("aten::unsqueeze", {grad, Expr(1)});
  if (reduction_of(args) == kMean) grad = b("aten::div.Tensor", {grad, cast(b, given(node, "total_weight"), t)});
  if (Value* w = given(node, "weight")) grad = b("aten::mul.Tensor", {grad, cast(b, w, t)});
  return finish(b, node, {b("aten::where.ScalarOther", {hit, grad, Expr(0)})});
}

bool has_class_indices(const TensorType& x, const TensorType& target) {
  return is_integral(target.dtype) && !(x.sizes == target.sizes && is_float(target.dtype));
}
void cross_entropy(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& target = args.tensor(1);
  VESTA_USER_CHECK(is_float(x.dtype) && x.dim() >= 1, "cross_entropy needs floats with a class dimension");
  const size_t d = x.dim() == 1 ? 0 : 1;
  Sizes rest = x.sizes;
  rest.erase(rest.begin() + static_cast<int64_t>(d));
  const Sizes wanted = has_class_indices(x, target) ? rest : x.sizes;
  VESTA_USER_CHECK(target.dim() == wanted.size(), "cross_entropy: the target has the wrong number of dimensions");
  VESTA_USER_CHECK(same_sizes(g, target.sizes, wanted), "cross_entropy: the target has the wrong size");
  VESTA_USER_CHECK(!args.has("weight") || same_sizes(g, args.tensor("weight").sizes, {{x.sizes[d]}}),
                   "cross_entropy needs one weight per class");
  results = {contiguous_like(x, reduction_of(args) == kNone ? rest : Sizes{})};
}

// -sum over classes of log_p * target: the target is a probability for each class.
std::vector<Value*> cross_entropy_of_probabilities(Builder& b, const Node& node, Value* log_p, size_t dim) {
  const NodeArgs args = node.named();
  const Expr d = static_cast<int64_t>(dim), classes = log_p->type.sizes[dim];
  if (!classes.is_constant()) return {};
  Value* target = cast(b, node.input(1), log_p->type.dtype);
  if (const double s = args.number("label_smoothing"); s != 0) {
    target =
        b("aten::add.Scalar", {b("aten::mul.Scalar", {target, 1 - s}), s / static_cast<double>(classes.constant())});
  }
  Value* product = b("aten::mul.Tensor", {log_p, target});
  if (Value* w = class_weights(b, node, log_p, dim)) product = b("aten::mul.Tensor", {product, w});
  const int64_t reduction = reduction_of(args);
  if (reduction == kNone) {
    return finish(b, node, {b("aten::neg", {b("aten::sum.dim_IntList", {product, IntList{d}, false})})});
  }
  Value* loss = b("aten::neg", {total(b, product)});
  if (reduction == kMean) {
    Expr rows = 1;
    for (size_t i = 0; i < log_p->type.dim(); ++i) rows = i == dim ? rows : rows * log_p->type.sizes[i];
    loss = b("aten::div.Scalar", {loss, rows});
  }
  return finish(b, node, {loss});
}

// The mean of -log_p over the classes, which label smoothing mixes in; 0 for ignored rows.
Value* smooth_loss(Builder& b, const Node& node, Value* log_p, size_t dim, Value* kept) {
  const Expr d = static_cast<int64_t>(dim);
  Value* x = log_p;
  if (Value* w = class_weights(b, node, log_p, dim)) x = b("aten::mul.Tensor", {x, w});
  Value* sum = b("aten::neg", {b("aten::sum.dim_IntList", {x, IntList{d}, true})});
  return b("aten::masked_fill.Scalar", {sum, b("aten::logical_not", {kept}), Expr(0)});
}

std::vector<Value*> cross_entropy_form(Builder& b, const Node& node) {
  const NodeArgs args = node.named();
  Value* input = node.input(0);
  if (numel(input->type).is_constant(0)) return {};
  const size_t dim = input->type.dim() == 1 ? 0 : 1;
  Value* x = opmath(b, input);
  Value* log_p = b("aten::_log_softmax", {x, Expr(static_cast<int64_t>(dim)), false});
  if (!has_class_indices(input->type, node.input(1)->type)) {
    return is_float(node.input(1)->type.dtype) ? cross_entropy_of_probabilities(b, node, log_p, dim)
                                               : std::vector<Value*>{};
  }
  const TargetLoss p = target_loss(b, node, log_p, dim);
  Value* each = p.loss;
  if (const double s = args.number("label_smoothing"); s != 0) {
    const Expr classes = input->type.sizes[dim];
    if (!classes.is_constant()) return {};
    Value* smooth = smooth_loss(b, node, log_p, dim, p.kept);
    each = b("aten::add.Tensor", {b("aten::mul.Scalar", {each, 1 - s}),
                                  b("aten::mul.Scalar", {smooth, s / static_cast<double>(classes.constant())})});
  }
  const int64_t reduction = reduction_of(args);
  if (reduction == kNone) return finish(b, node, {b("aten::squeeze.dim", {each, Expr(static_cast<int64_t>(dim))})});
  Value* loss = total(b, each);
  if (reduction == kMean) loss = b("aten::div.Tensor", {loss, total(b, p.weight)});
  return finish(b, node, {loss});
}

constexpr OpRow kLossRows[] = {
    composite("aten::mse_loss", pairwise, mse),
    composite("aten::l1_loss", l1_shape, l1),
    composite("aten::smooth_l1_loss", smooth_l1_shape, smooth_l1),
    composite("aten::huber_loss", huber_shape, huber),
    composite("aten::soft_margin_loss", soft_margin_shape, soft_margin),
    composite("aten::soft_margin_loss_backward", soft_margin_backward_shape, soft_margin_backward),
    composite("aten::mse_loss_backward", pairwise_backward, mse_backward),
    composite("aten::nll_loss_forward", nll_forward, nll_form, kMayRaise),
    composite("aten::nll_loss_backward", nll_backward, nll_backward_form),
    composite("aten::cross_entropy_loss", cross_entropy, cross_entropy_form, kMayRaise),
};

}  // namespace

std::span<const OpRow> loss_rows() { return kLossRows; }

}  // namespace vesta::graph
