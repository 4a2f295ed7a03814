#include "graph/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/copy.h"

namespace vesta::graph {
namespace {

// The part has no symbols: their hints stand for them.
Expr hint_of(Expr e) { return hint(e); }

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
    made_[v] = out_.graph->add_input(mapped(v->type, hint_of), InputKind::Argument, fmt::format("%{}", v->id));
    out_.inputs.push_back(v->id);
  }

  void add_node(const Node& n) {
    const Node* const made = add_copy(*out_.graph, n, hint_of, made_);
    for (size_t i = 0; i < n.results.size(); ++i) {
      const Value* v = n.results[i];
      if (!v) continue;
      const auto outside = [&](Node* user) { return !inside_.contains(user); };
      if (whole_.is_result(v) || std::any_of(v->users.begin(), v->users.end(), outside)) {
        out_.graph->outputs.push_back({.value = made->results[i]});
        out_.outputs.push_back(v->id);
      }
    }
  }

  const Graph& whole_;
  std::unordered_set<const Node*> inside_;
  std::unordered_map<const Value*, Value*> made_;  // by the value of the whole
  Part out_;
};

}  // namespace

Part part_of(const Graph& whole, const std::set<uint32_t>& values) { return PartMaker(whole, values).run(); }

}  // namespace vesta::graph
