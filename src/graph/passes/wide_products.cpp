// Turns products (aten::linear) of one input with several weights into one product with the weights side by side, on a
// GPU: queries, keys and values, or the gate and the input of a layer. One large product keeps more of the GPU busy
// than several small ones. The weights side by side are a copy of them, which Options::packed_weights must allow,
// except for kernels of few rows: these read each weight where it is (PassContext::computes_product).
#include <algorithm>

#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

bool is_weight(const std::vector<bool>& parameters, const Value* v) {
  return !v->producer && is_constant_weight(parameters, v) && v->type.sizes[0].is_constant();
}

// A GPU runs a product by tiles of about 64 x 64 results. One of so many keeps all of its multiprocessors busy and
// gains nothing from a neighbour: gate and up of a Llama-8B for 128 tokens took 69 us on an H200, and 71 us as one
// product, but queries, keys and values 30 and 17.
constexpr int64_t kFillingResults = int64_t{256} * 64 * 64;

bool fills_a_gpu(const TensorType& result) {
  return bytes_of(result).value_or(0) >= kFillingResults * element_size(result.dtype);
}

constexpr size_t kMostInPlace = 4;  // weights that a kernel reads where they are: each row of a tile selects one

// A product whose weight and bias are constants that exist before the first node.
bool may_join(const Node* n, const PassContext& context, const std::vector<bool>& parameters) {
  if (!is_op(n, "aten::linear") || n->prepacked || !n->results[0]) return false;
  const Value *x = n->input(0), *w = n->input(1), *bias = value_of(n->args()[2]);
  const TensorType& y = n->results[0]->type;
  return y.device.type == context.device && w->type.dim() == 2 && w->type.dtype == x->type.dtype &&
         y.dtype == x->type.dtype && is_contiguous(y) && is_weight(parameters, w) &&
         (!bias || (bias->type.dim() == 1 && bias->type.dtype == y.dtype && is_weight(parameters, bias)));
}

// n and the later products of the same input, all with a bias or all without.
std::vector<Node*> joined(Node* n, const PassContext& context, const std::vector<bool>& parameters) {
  std::vector<Node*> out;
  for (Node* m : n->input(0)->users) {
    const bool known = std::find(out.begin(), out.end(), m) != out.end();
    if (known || !may_join(m, context, parameters) || m->input(0) != n->input(0)) continue;
    if (!value_of(m->args()[2]) == !value_of(n->args()[2])) out.push_back(m);
  }
  return out;
}

// Those of the products that one kernel computes from their weights in place. A kernel fuses the others with the nodes
// that read them.
std::vector<Node*> joined_in_place(const std::vector<Node*>& nodes, const PassContext& context) {
  std::vector<Node*> out;
  Expr columns = 0;
  for (Node* n : nodes) {
    if (out.size() == kMostInPlace || !is_read_elsewhere(n->results[0])) continue;
    out.push_back(n);
    columns = columns + n->input(1)->type.sizes[0];
  }
  return out.size() > 1 && kernel_computes(*out[0], context, columns) ? out : std::vector<Node*>();
}

// Those of the products that gain from a copy of their weights.
std::vector<Node*> joined_by_copy(std::vector<Node*> nodes, const PassContext& context) {
  std::erase_if(nodes, [&](const Node* n) {
    return fills_a_gpu(n->results[0]->type) || kernel_computes(*n, context, n->input(1)->type.sizes[0]);
  });
  return nodes;
}

Value* side_by_side(Builder& b, const std::vector<Node*>& nodes, size_t argument, bool copy) {
  ValueList parts;
  for (const Node* n : nodes) parts.push_back(n->input(argument));
  Node* const all = b.node("aten::cat", {parts, Expr(0)});
  all->prepacked = copy;
  return all->results[0];
}

int64_t bytes_side_by_side(const std::vector<Node*>& nodes) {
  int64_t bytes = 0;
  for (const Node* n : nodes)
    for (const Value* v : {n->input(1), value_of(n->args()[2])})
      if (v) bytes += bytes_of(v->type).value_or(0);
  return bytes;
}

}  // namespace

bool write_wide_products(Graph& graph, const PassContext& context) {
  // The library may add up in another order.
  if (!context.inference || context.options.numerics == "eager") return false;
  if (!context.computes_product && !fits_packed_budget(graph, context, 0)) return false;
  Rewriter rewriter(graph, context);
  const std::vector<bool> parameters = parameters_of(graph);
  for (Node *n = graph.first(), *next = nullptr; n; n = next) {
    next = n->next;
    if (!may_join(n, context, parameters)) continue;
    const std::vector<Node*> all_nodes = joined(n, context, parameters);
    std::vector<Node*> nodes = joined_in_place(all_nodes, context);
    const bool copy = nodes.empty();
    if (copy) nodes = joined_by_copy(all_nodes, context);
    if (nodes.size() < 2 || nodes[0] != n || (copy && !fits_packed_budget(graph, context, bytes_side_by_side(nodes))))
      continue;
    if (!rewriter.may()) break;
    Builder b(graph, n);
    b.source = n->source;
    Value* const weights = side_by_side(b, nodes, 1, copy);
    const Arg bias = value_of(n->args()[2]) ? Arg(side_by_side(b, nodes, 2, copy)) : Arg(None{});
    Value* const all = b("aten::linear", {n->input(0), weights, bias});
    const auto columns = Expr(static_cast<int64_t>(all->type.dim()) - 1);
    Expr begin = 0;
    for (Node* m : nodes) {
      const Expr end = begin + m->input(1)->type.sizes[0];
      Value* const part = b("aten::slice.Tensor", {all, columns, begin, end, Expr(1)});
      begin = end;
      rewriter.substitute(m->results[0], b("aten::clone", {part, MemoryFormat::Contiguous}));
    }
    for (Node* m : nodes) {
      if (m == next) next = m->next;
      graph.erase(m);
    }
  }
  return rewriter.changed();
}

}  // namespace vesta::graph
