// Softmax and its gradients, as compositions. Results are contiguous.
//
// The decompose pass replaces a softmax by the nodes below: two reductions and pointwise arithmetic. The reductions are
// lowered by Lowering::reduction (loops/lower.cpp), and the scheduler fuses all of it into one kernel, a row of which
// is one item of work (schedule/fusion.h). On GPUs one loop finds the maximum and the sum (loops/online.h).
#include <limits>

#include "graph/ops/rows.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {
namespace {

void give(const NodeArgs& args, Guards& g, DType t, Results& results) {
  const TensorType& x = args.tensor(0);
  wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(is_float(t) || is_empty(g, x.sizes), "softmax needs a floating point type");
  results.assign(1, contiguous_like(x, x.sizes, t));
}
void inner(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const bool widens = args.boolean("half_to_float");
  VESTA_USER_CHECK(!widens || (x.device.type == DeviceType::CUDA && x.dtype == DType::F16),
                   "half_to_float is only supported on CUDA for half precision");
  give(args, g, widens ? DType::F32 : x.dtype, results);
}
void outer(const NodeArgs& args, Guards& g, Results& results) {
  give(args, g, args.dtype("dtype", args.tensor(0).dtype), results);
}
void backward(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(x.device.type != DeviceType::CUDA || x.dtype == args.tensor(1).dtype,
                   "the gradient and the result have different types");
  results.assign(1, contiguous_like(x, x.sizes, args.dtype("input_dtype", x.dtype)));
}

bool skip(const Node& node) {
  const TensorType& t = node.results[0]->type;
  return t.dim() == 0 || numel(t).is_constant(0) || is_complex(t.dtype);
}

// x - max, its exponentials, and their sum, in the result's opmath.
struct Shifted {
  Value* shifted;
  Value* total;
  Value* powers;
};
Shifted shift(Builder& b, const Node& node, const IntList& dims) {
  Value* x = cast(b, cast(b, node.input(0), node.results[0]->type.dtype), opmath(node.results[0]->type.dtype));
  Value* shifted = b("aten::sub.Tensor", {x, amax_keeping(b, x, dims)});
  Value* powers = b("aten::exp", {shifted});
  return {shifted, sum_keeping(b, powers, dims), powers};
}

IntList dims_of(const Node& node) { return {Expr(wrap_dim(node.named().integer("dim"), node.input(0)->type.dim()))}; }

std::vector<Value*> softmax(Builder& b, const Node& node) {
  if (skip(node)) return {};
  const Shifted s = shift(b, node, dims_of(node));
  return finish(b, node, {b("aten::div.Tensor", {s.powers, s.total})});
}
std::vector<Value*> log_softmax(Builder& b, const Node& node) {
  if (skip(node)) return {};
  const Shifted s = shift(b, node, dims_of(node));
  return finish(b, node, {b("aten::sub.Tensor", {s.shifted, b("aten::log", {s.total})})});
}
// A row that holds only -inf gives zeros.
std::vector<Value*> safe_softmax(Builder& b, const Node& node) {
  if (skip(node)) return {};
  const IntList dims = dims_of(node);
  const Shifted s = shift(b, node, dims);
  Value* x = node.input(0);
  Value* masked = b("aten::eq.Scalar", {amax_keeping(b, x, dims), -std::numeric_limits<double>::infinity()});
  Value* plain = b("aten::div.Tensor", {s.powers, s.total});
  return finish(b, node, {b("aten::masked_fill.Scalar", {plain, masked, Expr(0)})});
}

std::vector<Value*> softmax_backward(Builder& b, const Node& node) {
  if (skip(node)) return {};
  Value* grad = opmath(b, node.input(0));
  Value* output = opmath(b, node.input(1));
  Value* weighted = b("aten::mul.Tensor", {grad, output});
  Value* total = sum_keeping(b, weighted, dims_of(node));
  return finish(b, node, {b("aten::mul.Tensor", {output, b("aten::sub.Tensor", {grad, total})})});
}

// The node that makes v, if it is this operator.
const Node* made_by(const Value* v, std::string_view op) {
  return v && v->producer && v->producer->op->name == op ? v->producer : nullptr;
}

// The sum over classes of what nll_loss_backward becomes (nll_backward_form in loss.cpp): only the target's class is
// not zero, so no loop is needed, and the whole gradient is pointwise. nullptr: it is something else.
Value* sum_of_target(Builder& b, const Value* grad, const IntList& dims) {
  // The gradient in a half type, which log_softmax's formula reads in float32. Zeros stay zeros.
  if (const Node* const cast = made_by(grad, "aten::_to_copy")) {
    const Value* const narrow = cast->input(0);
    if (!is_float(narrow->type.dtype) || !is_float(grad->type.dtype)) return nullptr;
    Value* const sum = sum_of_target(b, narrow, dims);
    return sum ? b("aten::_to_copy", {sum}, {{"dtype", grad->type.dtype}}) : nullptr;
  }
  if (grad->type.dim() != 2 || dims != IntList{Expr(1)}) return nullptr;
  const Node* const choice = made_by(grad, "aten::where.ScalarOther");
  const auto* const zero = choice ? std::get_if<Expr>(&choice->args()[2]) : nullptr;
  if (!zero || !zero->is_constant(0)) return nullptr;
  const Node* const hit = made_by(choice->input(0), "aten::logical_and");
  const Node* const at = hit ? made_by(hit->input(0), "aten::eq.Tensor") : nullptr;
  const Node* const classes = at ? made_by(at->input(1), "aten::arange.start_step") : nullptr;
  if (!classes) return nullptr;
  Value *const kept = hit->input(1), *const scale = choice->input(1);
  const IntList rows{grad->type.sizes[0], Expr(1)};
  const auto is_one = [](Expr e) { return e.is_constant(1); };
  const bool all = classes->results[0]->type.sizes == Sizes{grad->type.sizes[1]};
  const bool by_row = scale->type.dim() <= 2 && (scale->type.dim() == 0 || is_one(scale->type.sizes.back()));
  if (!all || !by_row || kept->type.sizes != Sizes(rows)) return nullptr;
  Value* const each = b("aten::expand", {scale, rows});
  return b("aten::masked_fill.Scalar", {each, b("aten::logical_not", {kept}), Expr(0)});
}

std::vector<Value*> log_softmax_backward(Builder& b, const Node& node) {
  if (skip(node)) return {};
  Value* grad = opmath(b, node.input(0));
  Value* output = opmath(b, node.input(1));
  Value* total = sum_of_target(b, grad, dims_of(node));
  if (!total) total = sum_keeping(b, grad, dims_of(node));
  return finish(b, node, {b("aten::sub.Tensor", {grad, b("aten::mul.Tensor", {b("aten::exp", {output}), total})})});
}

constexpr OpRow kSoftmaxRows[] = {
    composite("aten::_softmax", inner, softmax),
    composite("aten::_log_softmax", inner, log_softmax),
    composite("aten::softmax.int", outer, softmax),
    composite("aten::log_softmax.int", outer, log_softmax),
    composite("aten::_safe_softmax", outer, safe_softmax),
    composite("aten::_softmax_backward_data", backward, softmax_backward),
    composite("aten::_log_softmax_backward_data", backward, log_softmax_backward),
};

}  // namespace

std::span<const OpRow> softmax_rows() { return kSoftmaxRows; }

}  // namespace vesta::graph
