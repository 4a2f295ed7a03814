#include "graph/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace vesta::graph {
namespace {

Expr constant(Expr e) { return hint(e); }

std::vector<Expr> constants(const std::vector<Expr>& list) {
  std::vector<Expr> out;
  for (const Expr e : list) out.push_back(constant(e));
  return out;
}

TensorType constants(const TensorType& t) { return {t.dtype, constants(t.sizes), constants(t.strides), t.device}; }

class PartMaker {
 public:
  PartMaker(const Graph& whole, const std::set<uint32_t>& values) : whole_(whole) {
    out_.graph = std::make_unique<Graph>();
    whole.for_each_node([&](Node* n) {
      const auto wanted = [&](const Value* v) { return v && values.contains(v->id); };
      if (std::any_of(n->results.begin(), n->results.end(), wanted)) inside_.insert(n);
    });
    add_between();
  }

  Part run() {
    // Inputs come before nodes.
    whole_.for_each_node([&](Node* n) {
      if (inside_.contains(n)) n->for_each_input([&](const Value* v) { add_input(v); });
    });
    whole_.for_each_node([&](Node* n) {
      if (inside_.contains(n)) add_node(*n);
    });
    return std::move(out_);
  }

 private:
  // Nodes that read what the part computes and are read by it: views that a kernel reads through.
  void add_between() {
    std::unordered_set<const Node*> after = inside_, before = inside_;
    for (const Node* n = whole_.first(); n; n = n->next)
      n->for_each_input([&](const Value* v) {
        if (after.contains(v->producer)) after.insert(n);
      });
    for (const Node* n = whole_.last(); n; n = n->prev)
      if (before.contains(n)) n->for_each_input([&](const Value* v) { before.insert(v->producer); });
    for (const Node* n : after)
      if (before.contains(n)) inside_.insert(n);
  }

  void add_input(const Value* v) {
    if (made_.contains(v) || inside_.contains(v->producer)) return;
    made_[v] = out_.graph->add_input(constants(v->type), InputKind::Argument, fmt::format("%{}", v->id));
    out_.inputs.push_back(v->id);
  }

  void add_node(const Node& n) {
    std::vector<Arg> args(n.args().begin(), n.args().end());
    for (Arg& a : args) {
      if (auto* v = std::get_if<Value*>(&a)) *v = made_.at(*v);
      if (auto* e = std::get_if<Expr>(&a)) *e = constant(*e);
      if (auto* list = std::get_if<IntList>(&a)) *list = constants(*list);
      if (auto* list = std::get_if<ValueList>(&a)) {
        for (Value*& v : *list)
          if (v) v = made_.at(v);
      }
    }
    std::vector<TensorType> types;
    for (const Value* v : n.results) types.push_back(v ? constants(v->type) : TensorType{});
    Node* made = out_.graph->add_node(*n.op, std::move(args), std::move(types));
    made->source = n.source;
    for (size_t i = 0; i < n.results.size(); ++i) {
      Value* v = n.results[i];
      if (!v) {
        made->results[i] = nullptr;
        continue;
      }
      made_[v] = made->results[i];
      const auto outside = [&](Node* user) { return !inside_.contains(user); };
      if (whole_.is_result(v) || std::any_of(v->users.begin(), v->users.end(), outside)) {
        out_.graph->outputs.push_back({.value = made->results[i]});
        out_.outputs.push_back(v->id);
      }
    }
  }

  const Graph& whole_;
  std::unordered_set<const Node*> inside_;
  std::unordered_map<const Value*, Value*> made_;
  Part out_;
};

}  // namespace

Part part_of(const Graph& whole, const std::set<uint32_t>& values) { return PartMaker(whole, values).run(); }

}  // namespace vesta::graph
