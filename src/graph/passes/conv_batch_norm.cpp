// Turns batch_norm(convolution(x, w, b)) in inference into one convolution whose weight and bias are prepacked
// constants. Per-channel factors are computed in float64. The weight is multiplied in the type that batch_norm computes
// in, by a factor that is rounded to that type as eager rounds it, in one pass over its memory. All weights and
// statistics must be Parameters.
#include "graph/passes/convolution.h"
#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

struct BatchNorm {
  Value* weight = nullptr;
  Value* bias = nullptr;
  Value* mean = nullptr;
  Value* variance = nullptr;
  double eps = 0;
};

std::optional<BatchNorm> as_batch_norm(const Node& n) {
  if (n.op->role() != Role::BatchNorm) return std::nullopt;
  const NodeArgs a = n.named();
  if (n.op->schema.index_of("training") >= 0 && a.boolean("training")) return std::nullopt;
  return BatchNorm{value_of(a.get("weight")), value_of(a.get("bias")), value_of(a.get("running_mean")),
                   value_of(a.get("running_var")), a.number("eps")};
}

// Builds the folding arithmetic; all its nodes are prepacked.
class Folder {
 public:
  Folder(Graph& g, Node* before) : builder_(g, before) {}
  Value* operator()(std::string_view op, std::vector<Arg> args,
                    std::vector<std::pair<std::string_view, Arg>> named = {}) {
    Node* n = builder_.node(op, std::move(args), std::move(named));
    n->prepacked = true;
    return n->results[0];
  }
  Value* cast(Value* v, DType t) { return v->type.dtype == t ? v : (*this)("aten::_to_copy", {v}, {{"dtype", t}}); }

 private:
  Builder builder_;
};

void fold(Rewriter& r, Node* norm, Node* conv, const Convolution& c, const BatchNorm& bn) {
  Graph& g = r.graph();
  Folder f(g, conv);
  const DType t = c.w->type.dtype;
  constexpr DType kFolding = DType::F64;  // for per-channel factors
  Value* scale = f("aten::rsqrt", {f("aten::add.Scalar", {f.cast(bn.variance, kFolding), bn.eps})});
  if (bn.weight) scale = f("aten::mul.Tensor", {scale, f.cast(bn.weight, kFolding)});
  // Weight and bias are multiplied by the same factor, because their sum may be far smaller than both.
  Value* factor = f.cast(scale, opmath(t));
  scale = f.cast(factor, kFolding);
  Value* shift = f("aten::neg", {f.cast(bn.mean, kFolding)});
  if (c.bias) shift = f("aten::add.Tensor", {shift, f.cast(c.bias, kFolding)});
  shift = f("aten::mul.Tensor", {shift, scale});
  if (bn.bias) shift = f("aten::add.Tensor", {shift, f.cast(bn.bias, kFolding)});
  Value* rows = f("aten::view", {factor, IntList{c.w->type.sizes[0], 1, 1, 1}});
  Value* weight = f.cast(f("aten::mul.Tensor", {c.w, rows}), t);
  Value* bias = f.cast(shift, t);
  std::vector<Arg> args(conv->args().begin(), conv->args().end());
  args[1] = weight;
  args[2] = bias;
  r.substitute(norm->results[0], conv, *conv->op, std::move(args), conv);
  g.erase(norm);
  g.erase(conv);
}

}  // namespace

bool fold_batch_norm(Graph& graph, const PassContext& context) {
  if (!context.inference || packed_budget(context) == 0) return false;
  Rewriter rewriter(graph, context);
  const std::vector<bool> parameters = parameters_of(graph);
  graph.for_each_node([&](Node* n) {
    const std::optional<BatchNorm> bn = n->args().empty() || n->prepacked ? std::nullopt : as_batch_norm(*n);
    if (!bn || !bn->mean || !bn->variance) return;
    Value* y = n->input(0);
    const std::optional<Convolution> c = y->producer ? as_convolution(*y->producer) : std::nullopt;
    if (!c || !has_one_use(graph, y) || y->type != n->results[0]->type) return;
    for (size_t i = 1; i < n->results.size(); ++i)
      if (n->results[i] && graph.is_used(n->results[i])) return;
    for (const Value* v : {c->w, c->bias, bn->weight, bn->bias, bn->mean, bn->variance})
      if (v && !is_constant_weight(parameters, v)) return;
    const std::optional<int64_t> bytes = bytes_of(c->w->type);
    const Expr channels = c->w->type.sizes[0];
    if (!bytes || !channels.is_constant()) return;
    if (!fits_packed_budget(graph, context, *bytes + channels.constant() * element_size(c->w->type.dtype)) ||
        !rewriter.may())
      return;
    fold(rewriter, n, y->producer, *c, *bn);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
