// Folds constants by metadata alone: a tensor that is one number throughout (uniform.h) stays so through casts, views,
// copies and arithmetic, and becomes aten::full. The pass never evaluates a tensor.
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/uniform.h"

namespace vesta::graph {
namespace {

enum class Fold : uint8_t { Move, Add, Sub, Mul, Neg, Not };

const std::unordered_map<std::string_view, Fold>& folds() {
  static const std::unordered_map<std::string_view, Fold> table = {
      {"aten::_to_copy", Fold::Move},    {"aten::clone", Fold::Move},         {"aten::expand", Fold::Move},
      {"aten::view", Fold::Move},        {"aten::_unsafe_view", Fold::Move},  {"aten::unsqueeze", Fold::Move},
      {"aten::squeeze.dim", Fold::Move}, {"aten::permute", Fold::Move},       {"aten::slice.Tensor", Fold::Move},
      {"aten::select.int", Fold::Move},  {"aten::transpose.int", Fold::Move}, {"aten::add.Tensor", Fold::Add},
      {"aten::add.Scalar", Fold::Add},   {"aten::sub.Tensor", Fold::Sub},     {"aten::sub.Scalar", Fold::Sub},
      {"aten::mul.Tensor", Fold::Mul},   {"aten::mul.Scalar", Fold::Mul},     {"aten::neg", Fold::Neg},
      {"aten::logical_not", Fold::Not},
  };
  return table;
}

std::optional<double> operand(const Arg& a, DType t) {
  const std::optional<double> d = number_of(a);
  return d ? rounded_to(t, *d) : std::nullopt;
}

// Computes in the type itself where double arithmetic followed by one rounding gives the same (F32, F64; integers that
// stay exact in a double).
std::optional<double> arithmetic(Fold f, const Node& n, DType t) {
  if (t != DType::F32 && t != DType::F64 && !is_integral(t)) return std::nullopt;
  const std::optional<double> a = operand(n.args()[0], t);
  if (!a) return std::nullopt;
  if (f == Fold::Neg) return rounded_to(t, -*a);
  const std::optional<double> b = operand(n.args()[1], t);
  if (!b) return std::nullopt;
  if (n.op->schema.index_of("alpha") >= 0 && number_of(n.named().get("alpha")) != 1.0) return std::nullopt;
  switch (f) {
    case Fold::Add: return rounded_to(t, *a + *b);
    case Fold::Sub: return rounded_to(t, *a - *b);
    case Fold::Mul: return rounded_to(t, *a * *b);
    default: return std::nullopt;
  }
}

std::optional<double> folded(Fold f, const Node& n) {
  const DType t = n.results[0]->type.dtype;
  switch (f) {
    case Fold::Move: return operand(n.args()[0], t);
    case Fold::Not: {
      const std::optional<double> d = number_of(n.args()[0]);
      return d ? std::optional(*d == 0 ? 1.0 : 0.0) : std::nullopt;
    }
    default: return arithmetic(f, n, t);
  }
}

Arg scalar_of(DType t, double v) {
  if (t == DType::Bool) return v != 0;
  if (is_integral(t)) return Expr(static_cast<int64_t>(v));
  return v;
}

}  // namespace

bool fold_constants(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  const auto& table = folds();
  static const Op* full = find_op("aten::full");
  if (!full) return false;
  graph.for_each_node([&](Node* n) {
    if (n->prepacked || n->results.size() != 1 || !n->results[0] || n->args().empty() || !value_of(n->args()[0]))
      return;
    Value* y = n->results[0];
    const auto it = table.find(n->op->name);
    if (it == table.end()) return;
    const std::optional<double> v = folded(it->second, *n);
    // full() makes contiguous tensors. An expanded or sliced value that is an output has strides of its own.
    if (!v || y->type.strides != contiguous_strides(y->type.sizes) || !rewriter.may()) return;
    const Node* made = graph.add_node(
        *full, {y->type.sizes, scalar_of(y->type.dtype, *v), y->type.dtype, None{}, y->type.device, None{}}, {y->type},
        n);
    rewriter.substitute(y, made->results[0]);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
