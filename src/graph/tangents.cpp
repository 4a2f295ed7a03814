#include "graph/tangents.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "graph/copy.h"

namespace vesta::graph {
namespace {

class Pruner {
 public:
  Pruner(Graph& g, std::span<const TangentState> states) : graph_(g) {
    const size_t first = g.inputs.size() - states.size();
    for (size_t i = 0; i < states.size(); ++i) {
      Value* const v = g.inputs[first + i].value;
      dependent_.insert(v);
      if (states[i] == TangentState::Undefined) zero_.insert(v);
    }
  }

  void run() {
    graph_.for_each_node([&](Node* n) { visit(n); });
    for (Output& o : graph_.outputs)
      if (zero_.contains(o.value)) o = {.kind = OutputKind::None};
    for (Node* n = graph_.last(); n;) {
      Node* const previous = n->prev;
      const bool is_zero = std::ranges::any_of(n->results, [&](const Value* v) { return zero_.contains(v); });
      if (is_zero) {
        VESTA_CHECK(std::ranges::none_of(n->results, [&](const Value* v) { return v && graph_.is_used(v); }),
                    "{} is zero and used", n->op->name);
        graph_.erase(n);
      }
      n = previous;
    }
    std::vector<int> places;
    int kept = 0;
    for (const Input& i : graph_.inputs) places.push_back(zero_.contains(i.value) ? -1 : kept++);
    std::erase_if(graph_.inputs, [&](const Input& i) { return zero_.contains(i.value); });
    for (Output& o : graph_.outputs)
      if (o.kind == OutputKind::Input || o.kind == OutputKind::InputView)
        o.alias = places[static_cast<size_t>(o.alias)];
  }

 private:
  void visit(Node* n) {
    bool depends = false, all_zero = true, any_zero = false;
    n->for_each_input([&](Value* v) {
      if (!dependent_.contains(v)) return;
      depends = true;
      (zero_.contains(v) ? any_zero : all_zero) = zero_.contains(v);
    });
    if (!depends) return;
    for (Value* v : n->results) {
      if (!v) continue;
      dependent_.insert(v);
      if (all_zero) zero_.insert(v);
    }
    if (all_zero || !any_zero || is_other_term(n)) return;
    for (size_t i = 0; i < n->args().size(); ++i) {
      Arg a = n->args()[i];
      if (auto* v = std::get_if<Value*>(&a); v && zero_.contains(*v)) graph_.set_arg(n, i, zeros(*v, n));
      if (auto* list = std::get_if<ValueList>(&a)) {
        for (Value*& v : *list)
          if (zero_.contains(v)) v = zeros(v, n);
        graph_.set_arg(n, i, std::move(a));
      }
    }
  }

  // A sum in which one term is zero is the other term.
  bool is_other_term(Node* n) {
    if (n->op->name != "aten::add.Tensor") return false;
    if (!is_one(n->args()[2])) return false;
    const auto* const a = std::get_if<Value*>(&n->args()[0]);
    const auto* const b = std::get_if<Value*>(&n->args()[1]);
    if (!a || !b) return false;
    Value* const other = zero_.contains(*a) ? *b : *a;
    if (other->type != n->results[0]->type) return false;
    graph_.replace_uses(n->results[0], other);
    zero_.insert(n->results[0]);  // it is not used any more
    return true;
  }

  Value* zeros(const Value* v, Node* before) {
    Builder b(graph_, before);
    b.source = before->source;
    const TensorType& t = v->type;
    return b("aten::full", {IntList(t.sizes), Expr(0)}, {{"dtype", t.dtype}, {"device", t.device}});
  }

  Graph& graph_;
  std::unordered_set<const Value*> dependent_, zero_;
};

// Gives a gradient that shows a tangent memory of its own.
void own_gradient(Graph& half, Output& gradient) {
  TensorType dense = gradient.value->type;
  if (!is_non_overlapping_and_dense(dense)) dense.strides = contiguous_strides(dense.sizes);
  Value* v = half.add_node(get_op("aten::clone"), {gradient.value, None()}, {dense})->results[0];
  if (gradient.conj_neg.conj) v = half.add_node(get_op("aten::conj_physical"), {v}, {dense})->results[0];
  if (gradient.conj_neg.neg) v = half.add_node(get_op("aten::neg"), {v}, {dense})->results[0];
  gradient = {.value = v};
}

}  // namespace

std::unique_ptr<Graph> for_tangents(const Graph& backward, std::span<const TangentState> states) {
  std::unique_ptr<Graph> out = copy(backward);
  const size_t first = out->inputs.size() - states.size();
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] != TangentState::Expanded) continue;
    Value* const v = out->inputs[first + i].value;
    const TensorType dense = v->type;
    v->type.strides.assign(v->type.dim(), Expr(0));
    Node* const copied = out->add_node(get_op("aten::clone"), {v, None()}, {dense}, out->first());
    out->replace_uses(v, copied->results[0]);
    out->set_arg(copied, 0, v);
    // All elements of an expanded tangent, and so of each view of it, are one.
    for (Output& o : out->outputs) {
      if (o.kind != OutputKind::InputView || o.alias != static_cast<int>(first + i)) continue;
      if (o.type.dtype != dense.dtype) {
        own_gradient(*out, o);
        continue;
      }
      o.type.strides.assign(o.type.dim(), Expr(0));
      o.storage_offset = Expr(0);
    }
  }
  Pruner(*out, states).run();
  return out;
}

}  // namespace vesta::graph
