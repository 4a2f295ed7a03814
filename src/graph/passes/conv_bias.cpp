// Adds a convolution's bias in kernels of Vesta's. On a GPU, ATen adds it to cuDNN's result in a pass of its own; as a
// node of the graph, the addition fuses with what reads the result.
#include "graph/passes/convolution.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {

bool separate_bias(Graph& graph, const PassContext& context) {
  // Eager rounds before it adds, and again after that.
  if (!context.inference || context.options.numerics == "eager") return false;
  Rewriter rewriter(graph, context);
  graph.for_each_node([&](Node* n) {
    const auto c = as_convolution(*n);
    // ATen's kernels for grouped convolutions add it themselves.
    if (!c || !c->bias || c->groups != 1 || c->x->type.device.type != context.device || !rewriter.may()) return;
    Builder b(graph, n);
    b.source = n->source;
    std::vector<Arg> args(n->args().begin(), n->args().end());
    args[static_cast<size_t>(n->op->schema.index_of("bias"))] = None{};
    Value* const y = n->results[0];
    Node* const product = graph.add_node(*n->op, std::move(args), {y->type}, n);
    product->source = n->source;
    Value* const bias = b("aten::view", {c->bias, IntList{1, y->type.sizes[1], 1, 1}});
    rewriter.substitute(y, b("aten::add.Tensor", {product->results[0], bias}));
    graph.erase(n);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
