
#include "graph/graph.h"

namespace vesta::graph {
namespace {

void record(Graph& graph, Expr left, Relation relation, Expr right, const std::string& source) {
  for (const Guard& g : graph.guards)
    if (g.left == left && g.relation == relation && g.right == right) return;
  graph.guards.push_back({left, relation, right, source});
}

}  // namespace

bool GraphGuards::equal(Expr a, Expr b) {
  if (provably_equal(a, b)) return true;
  if (provably_less(a, b) || provably_less(b, a)) return false;
  const bool truth = hint(a) == hint(b);
  record(*graph_, a, truth ? Relation::Equal : Relation::NotEqual, b, source);
  return truth;
}

bool GraphGuards::less(Expr a, Expr b) {
  if (provably_less(a, b)) return true;
  if (provably_at_least(a, b)) return false;
  const bool truth = hint(a) < hint(b);
  record(*graph_, a, truth ? Relation::Less : Relation::AtLeast, b, source);
  return truth;
}

int64_t GraphGuards::specialize(Expr e) {
  if (e.is_constant()) return e.constant();
  const int64_t value = hint(e);
  record(*graph_, e, Relation::Equal, value, source);
  return value;
}

}  // namespace vesta::graph
