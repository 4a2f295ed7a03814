#include "graph/passes/views.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "graph/passes/rewriter.h"
#include "graph/rules/broadcast.h"

namespace vesta::graph {
namespace {

using Dims = std::vector<int64_t>;

// Views that keep the row-major order of elements.
bool is_reshape(const Node* n) {
  static const std::unordered_set<std::string_view> names = {
      "aten::view",        "aten::reshape", "aten::_unsafe_view", "aten::_reshape_alias",     "aten::unsqueeze",
      "aten::squeeze.dim", "aten::squeeze", "aten::squeeze.dims", "aten::flatten.using_ints", "aten::unflatten.int"};
  return n && names.contains(n->op->name);
}

// The permutation a node makes, if it is one.
std::optional<Dims> permutation(const Node* n) {
  if (!n) return std::nullopt;
  const std::string& name = n->op->name;
  if (name != "aten::permute" && name != "aten::t" && name != "aten::transpose.int" && name != "aten::numpy_T")
    return std::nullopt;
  const size_t dims = n->input(0)->type.dim();
  Dims p(dims);
  for (size_t i = 0; i < dims; ++i) p[i] = static_cast<int64_t>(i);
  if (name == "aten::permute") {
    const IntList& list = std::get<IntList>(n->args()[1]);
    if (list.size() != dims) return std::nullopt;
    for (size_t i = 0; i < dims; ++i) p[i] = wrap_dim(list[i], dims);
  } else if (name == "aten::transpose.int") {
    if (dims > 0)
      std::swap(p[wrap_dim(std::get<Expr>(n->args()[1]), dims)], p[wrap_dim(std::get<Expr>(n->args()[2]), dims)]);
  } else if (name == "aten::t") {
    if (dims == 2) std::swap(p[0], p[1]);
  } else {
    std::reverse(p.begin(), p.end());
  }
  return p;
}

bool is_plain_view(const Node* n) {
  static const std::unordered_set<std::string_view> names = {"aten::slice.Tensor", "aten::expand",    "aten::narrow",
                                                             "aten::view_as",      "aten::expand_as", "aten::alias"};
  return is_reshape(n) || permutation(n) || names.contains(n->op->name);
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
  if (r.replace(y, x)) return;  // they undo each other
  if (!r.may()) return;
  IntList list(q.begin(), q.end());
  if (canonical) {
    r.graph().set_arg(n, 0, x);
    r.graph().set_arg(n, 1, std::move(list));
    return;
  }
  Node* made = r.graph().add_node(permute, {x, std::move(list)}, {y->type}, n);
  made->source = n->source;
  r.substitute(y, made->results[0]);
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
  Node* made = r.graph().add_node(view, {x, y->type.sizes}, {y->type}, n);
  made->source = n->source;
  r.substitute(y, made->results[0]);
}

}  // namespace

bool canonicalise_views(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  if (!find_op("aten::permute") || !find_op("aten::view")) return false;
  graph.for_each_node([&](Node* n) {
    if (n->derived || n->results.size() != 1 || n->args().empty() || !value_of(n->args()[0])) return;
    if (!is_plain_view(n)) return;
    // With equal sizes and strides a view shows the whole tensor, except where a slice starts elsewhere.
    const bool may_be_whole = !is_op(n, "aten::slice.Tensor") || n->results[0]->type.sizes == n->input(0)->type.sizes;
    if (may_be_whole && !permutation(n) && rewriter.replace(n->results[0], n->input(0))) return;
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
