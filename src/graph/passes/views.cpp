// Shortens chains of views: reshapes of reshapes, permutations of permutations. Drops views that show their tensor
// unchanged. Writes t and transpose as permute, so that later passes match one form.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/rules/broadcast.h"
#include "graph/rules/view_strides.h"

namespace vesta::graph {
namespace {

using Dims = std::vector<int64_t>;

bool is_reshape(const Node* n) { return n && n->op->role() == Role::Reshape; }

// The permutation that a node performs; nullopt if it performs none.
std::optional<Dims> permutation(const Node* n) {
  if (!n || n->op->role() != Role::Permute) return std::nullopt;
  return view_permutation(n->named());
}

// permute(permute(x, p), q) = permute(x, p[q]).
void compose_permutations(Rewriter& r, Node* n, Dims q) {
  static const Op& permute = get_op("aten::permute");
  Value* x = n->input(0);
  Value* y = n->results[0];
  const std::optional<Dims> p = permutation(x->producer);
  const bool canonical = is_op(n, "aten::permute");
  if (!p && canonical) return;
  if (p) {
    for (int64_t& d : q) d = (*p)[d];
    x = x->producer->input(0);
  }
  if (r.replace(y, x)) return;  // the two permutations cancel
  if (!r.may()) return;
  IntList list(q.begin(), q.end());
  if (canonical) {
    r.graph().set_arg(n, 0, x);
    r.graph().set_arg(n, 1, std::move(list));
    return;
  }
  r.substitute(y, n, permute, {x, std::move(list)}, n);
}

// A reshape of a reshape of a contiguous tensor is one view of that tensor.
void compose_reshapes(Rewriter& r, Node* n) {
  static const Op& view = get_op("aten::view");
  Value* middle = n->input(0);
  Value* y = n->results[0];
  if (!is_reshape(middle->producer)) return;
  Value* x = middle->producer->input(0);
  if (!is_contiguous(x->type) || !is_contiguous(y->type)) return;
  if (r.replace(y, x)) return;
  if (!r.may()) return;
  r.substitute(y, n, view, {x, y->type.sizes}, n);
}

}  // namespace

bool canonicalise_views(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  if (!find_op("aten::permute") || !find_op("aten::view")) return false;
  graph.for_each_node([&](Node* n) {
    if (n->prepacked || n->results.size() != 1 || n->args().empty() || !value_of(n->args()[0])) return;
    const Role role = n->op->role();
    // A view of the tensor's own type shows the whole tensor.
    if ((role == Role::Reshape || role == Role::Part) && rewriter.replace(n->results[0], n->input(0))) return;
    if (const std::optional<Dims> p = permutation(n)) {
      bool identity = true;
      for (size_t i = 0; i < p->size(); ++i) identity &= (*p)[i] == static_cast<int64_t>(i);
      if (identity) {
        rewriter.replace(n->results[0], n->input(0));
      } else {
        compose_permutations(rewriter, n, *p);
      }
    } else if (is_reshape(n)) {
      compose_reshapes(rewriter, n);
    }
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
