// Packs the weights of products that kernels of ours compute on a CPU, once: panels of so many rows of the weight, the
// elements of a panel's rows beside each other, as a tile of registers reads them (loops/register_product.h). Otherwise
// each call packs them again. Options::packed_weights bounds the copies (panels.h).
//
// Measured with AVX-512, two cores, against packing in each call: 64 rows 15 % faster, 128 rows 7 %, 1024 rows 1 %.
#include <map>

#include "graph/passes/library.h"
#include "graph/passes/panels.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

constexpr int64_t kPanelRows = 64;  // graphs for other numbers of rows have the same panels

}  // namespace

bool pack_columns(Graph& graph, const PassContext& context) {
  if (!context.inference || !context.panel_of || packed_budget(context) == 0) return false;
  int64_t left = panel_budget(graph, context);
  Rewriter rewriter(graph, context);
  const std::vector<bool> parameters = parameters_of(graph);
  std::map<Value*, Value*> packed;
  graph.for_each_node([&](Node* n) {
    if (!is_op(n, "aten::linear") || n->prepacked || !kernel_computes_in_registers(*n, context)) return;
    Value *const x = n->input(0), *const w = n->input(1);
    if (!is_view_of_constant(parameters, w)) return;
    const int64_t inner = w->type.sizes[1].constant();
    const int64_t panel = context.panel_of(w->type.dtype, kPanelRows, w->type.sizes[0].constant(), inner, inner);
    if (panel == 0 || !has_whole_steps(w->type.dtype, inner)) return;
    Value*& made = packed[w];
    const int64_t bytes = made ? 0 : panel_bytes(w->type, panel);
    if (bytes > left || !rewriter.may()) return;
    left -= bytes;
    if (!made) {
      Builder b(graph, n);
      b.source = n->source;
      made = in_panels(b, as_constant(graph, parameters, w), panel);
    }
    rewriter.substitute(n->results[0], n, get_op("vesta::packed_linear"),
                        {x, made, n->args()[2], columns_of(w->type, panel)}, n);
    graph.erase(n);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
