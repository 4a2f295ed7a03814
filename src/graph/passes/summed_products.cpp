// Writes a sum of products as one product: x1 @ y1 + x2 @ y2 is [x1 x2] @ [y1; y2].
//
// The gradient of a weight that a loop uses in each step (a recurrent cell) is a sum of products, each as large as the
// weight. The sums would fuse into one kernel at the end of the loop, and every product would be held until then.
#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

// Whether the node adds two tensors of the type of its result.
bool is_sum(const Node* n) {
  if (!is_op(n, "aten::add.Tensor") || !is_one(n->named().get("alpha"))) return false;
  const Value *const x = value_of(n->args()[0]), *const y = value_of(n->args()[1]);
  return x && y && x->type == n->results[0]->type && y->type == n->results[0]->type;
}

// Whether the columns of both operands, side by side with those of others, take less memory than the product.
bool is_outer(const Node& product) {
  const auto size = [](const Value* v, size_t d) { return static_cast<double>(hint(v->type.sizes[d])); };
  const Value *const x = product.input(0), *const y = product.input(1);
  const double rows = size(x, 0), columns = size(y, 0), inner = size(x, 1);
  return inner * (rows + columns) <= rows * columns;
}

class Sum {
 public:
  Sum(Rewriter& rewriter, Node* root) : rewriter_(rewriter), root_(root) { add_terms(); }

  bool may_merge() const { return products_.size() >= 2; }

  void merge() {
    Builder b(rewriter_.graph(), root_);
    b.source = products_.back()->source;
    Value* sum = b("aten::linear", {side_by_side(b, 0), side_by_side(b, 1), None{}});
    for (Value* v : others_) sum = b("aten::add.Tensor", {sum, v});
    rewriter_.substitute(root_->results[0], sum);
  }

 private:
  // In the order of the program.
  void add_terms() {
    std::vector<Value*> open = {root_->results[0]};
    while (!open.empty()) {
      Value* const v = open.back();
      open.pop_back();
      if (is_sum(v->producer) && (v == root_->results[0] || has_one_use(rewriter_.graph(), v))) {
        open.push_back(v->producer->input(1));
        open.push_back(v->producer->input(0));
      } else if (is_product(v)) {
        products_.push_back(v->producer);
      } else {
        others_.push_back(v);
      }
    }
  }

  bool is_product(const Value* v) const {
    const Node* const n = v->producer;
    return is_op(n, "aten::linear") && !value_of(n->args()[2]) && v->type.dim() == 2 && n->input(0)->type.dim() == 2 &&
           v->type == root_->results[0]->type && has_one_use(rewriter_.graph(), v) && is_outer(*n);
  }

  // Joins one operand of each product, [rows, inner], into a tensor [rows, sum of inner].
  Value* side_by_side(Builder& b, size_t operand) const {
    ValueList parts;
    for (const Node* n : products_) parts.push_back(b("aten::permute", {n->input(operand), IntList{1, 0}}));
    return b("aten::permute", {b("aten::cat", {parts, Expr(0)}), IntList{1, 0}});
  }

  Rewriter& rewriter_;
  Node* const root_;
  std::vector<Node*> products_;
  std::vector<Value*> others_;
};

// Whether another sum adds this one up.
bool is_part(const Graph& graph, const Value* v) { return has_one_use(graph, v) && is_sum(v->users[0]); }

}  // namespace

bool merge_summed_products(Graph& graph, const PassContext& context) {
  if (context.options.numerics == "eager") return false;  // eager rounds each product
  Rewriter rewriter(graph, context);
  graph.for_each_node([&](Node* n) {
    if (!is_sum(n) || is_part(graph, n->results[0])) return;
    if (!is_float(n->results[0]->type.dtype) || !is_contiguous(n->results[0]->type)) return;
    Sum sum(rewriter, n);
    if (sum.may_merge() && rewriter.may()) sum.merge();
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
