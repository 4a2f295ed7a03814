// Packs the weights of products that kernels of ours compute on a CPU, once: panels of so many rows of the weight, the
// elements of a panel's rows beside each other, as a tile of registers reads them (loops/register_product.h). Otherwise
// each call packs them again. Options::packed_weights bounds the copies; without it, they take at most kMostPacked.
//
// Measured with AVX-512, two cores, against packing in each call: 64 rows 15 % faster, 128 rows 7 %, 1024 rows 1 %.
#include <map>

#include "graph/passes/library.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/decompose.h"

namespace vesta::graph {
namespace {

constexpr int64_t kMostPacked = int64_t{512} << 20;  // bytes
constexpr int64_t kMostRows = 512;                   // for more, packing takes a small part of a call

// The weight in panels: [panel][inner][row of the panel].
Value* panels(Builder& b, Value* w, int64_t panel) {
  const Expr rows = w->type.sizes[0], inner = w->type.sizes[1];
  Node* const apart = b.node("aten::view", {w, IntList{floordiv(rows, panel), Expr(panel), inner}});
  Node* const turned = b.node("aten::permute", {apart->results[0], IntList{0, 2, 1}});
  Node* const copy = b.node("aten::clone", {turned->results[0], MemoryFormat::Contiguous});
  for (Node* n : {apart, turned, copy}) n->prepacked = true;
  return copy->results[0];
}

}  // namespace

bool pack_columns(Graph& graph, const PassContext& context) {
  if (!context.inference || !context.panel_of || packed_budget(context) == 0) return false;
  int64_t left = context.options.packed_weights < 0 ? kMostPacked : packed_budget(context) - prepacked_bytes(graph);
  Rewriter rewriter(graph, context);
  const std::vector<bool> parameters = parameters_of(graph);
  std::map<Value*, Value*> packed;
  graph.for_each_node([&](Node* n) {
    if (!is_op(n, "aten::linear") || n->prepacked || !kernel_computes_in_registers(*n, context)) return;
    Value *const x = n->input(0), *const w = n->input(1);
    if (hint_rows(*n) > kMostRows || !is_contiguous(w->type) || !is_constant_weight(parameters, w)) return;
    const int64_t panel = context.panel_of(w->type.sizes[0].constant());
    if (panel == 0) return;
    Value*& made = packed[w];
    const int64_t bytes = made ? 0 : bytes_of(w->type).value_or(0);
    if (bytes > left || !rewriter.may()) return;
    left -= bytes;
    if (!made) {
      Builder b(graph, n);
      b.source = n->source;
      made = panels(b, w, panel);
    }
    rewriter.substitute(n->results[0], n, get_op("vesta::packed_linear"), {x, made, n->args()[2]}, n);
    graph.erase(n);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
