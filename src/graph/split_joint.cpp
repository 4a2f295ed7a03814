#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "graph/copy.h"
#include "graph/joint.h"
#include "graph/passes/rewriter.h"

namespace vesta::graph {
namespace {

class Splitter {
 public:
  Splitter(std::unique_ptr<Graph> graph, const Joint& joint, std::span<Value* const> saved,
           std::span<Value* const> copied)
      : graph_(std::move(graph)),
        joint_(joint),
        chosen_(saved.begin(), saved.end()),
        copied_(copied.begin(), copied.end()) {
    for (const Node* n = joint.first_backward; n; n = n->next) backward_.insert(n);
    for (size_t i = 0; i < graph_->inputs.size(); ++i) input_of_[graph_->inputs[i].value] = static_cast<int>(i);
    for (const Mutation& m : graph_->mutations) written_.insert(graph_->inputs[static_cast<size_t>(m.input)].value);
    for (size_t i = 0; i < joint.first_gradient; ++i)
      if (const Output& o = graph_->outputs[i]; o.kind == OutputKind::Fresh)
        output_of_.try_emplace(o.value, static_cast<int>(i));
  }

  Halves run() {
    while (out_.returned < joint_.first_gradient && !graph_->outputs[out_.returned].hidden) ++out_.returned;
    std::vector<Output> outputs(graph_->outputs.begin(),
                                graph_->outputs.begin() + static_cast<ptrdiff_t>(joint_.first_gradient));
    for (Output& o : outputs) o.hidden = false;
    for (const JointPart& part : joint_.parts) out_.backward.push_back(half_of(part));
    for (const Value* v : extra_) outputs.push_back({.value = const_cast<Value*>(v)});
    for (const SymbolSource& s : graph_->symbols) {
      out_.sizes.push_back(static_cast<int>(outputs.size()));
      outputs.push_back({.kind = OutputKind::Integer, .integer = s.symbol});
    }
    for (const Crossing& c : joint_.crossings) {
      std::vector<int64_t>& sizes = out_.crossing_sizes.emplace_back();
      for (const Expr& size : c.type.sizes) {
        if (size.is_constant()) {
          sizes.push_back(size.constant());
          continue;
        }
        sizes.push_back(-1 - static_cast<int64_t>(outputs.size()));
        outputs.push_back({.kind = OutputKind::Integer, .integer = size});
      }
    }
    graph_->outputs = std::move(outputs);
    for (Node* n = graph_->last(); n && backward_.contains(n);) {
      Node* const previous = n->prev;
      const auto is_read = [&](const Value* v) { return v && graph_->is_used(v); };  // it is saved
      if (std::ranges::none_of(n->results, is_read)) graph_->erase(n);
      n = previous;
    }
    graph_->inputs.resize(joint_.first_tangent);
    // Weights change from step to step, so the half keeps no value that is derived from them.
    for (Input& i : graph_->inputs) i.kind = InputKind::Argument;
    out_.forward = std::move(graph_);
    return std::move(out_);
  }

 private:
  // What the part needs, from its gradients back to saved values.
  struct Needs {
    std::vector<const Value*> saved;
    std::unordered_set<const Node*> nodes;
  };

  Needs needs_of(const JointPart& part) const {
    Needs out;
    std::unordered_set<const Value*> seen;
    std::vector<const Value*> open;
    const auto ask = [&](const Value* v) {
      if (seen.insert(v).second) open.push_back(v);
    };
    for (const int g : part.gradients) ask(graph_->outputs[static_cast<size_t>(g)].value);
    while (!open.empty()) {
      const Value* const v = open.back();
      open.pop_back();
      const Node* const n = v->producer;
      if (chosen_.contains(v)) {
        out.saved.push_back(v);
      } else if (n) {
        if (out.nodes.insert(n).second) n->for_each_input(ask);
      } else {
        VESTA_CHECK(static_cast<size_t>(input_of_.at(v)) >= joint_.first_tangent, "input {} is read and not saved",
                    input_of_.at(v));
      }
    }
    std::ranges::sort(out.saved, {}, &Value::id);
    return out;
  }

  // The nodes of the backward pass as they are, and before each of them what it reads of the forward half and is
  // computed again: only then does its memory have to be there.
  std::vector<const Node*> in_order_of_use(const std::unordered_set<const Node*>& nodes) const {
    std::vector<const Node*> out, later;
    std::unordered_map<const Node*, size_t> places;  // of forward nodes that are not yet in `out`
    graph_->for_each_node([&](Node* n) {
      if (!nodes.contains(n)) return;
      if (!backward_.contains(n)) {
        places.emplace(n, later.size());
        later.push_back(n);
        return;
      }
      std::vector<std::pair<size_t, const Node*>> before;
      const auto ask = [&](const Value* v) {
        const auto it = v->producer ? places.find(v->producer) : places.end();
        if (it == places.end()) return;
        before.emplace_back(it->second, it->first);
        places.erase(it);
      };
      n->for_each_input(ask);
      for (size_t i = 0; i < before.size(); ++i) before[i].second->for_each_input(ask);
      std::ranges::sort(before);
      for (const auto& [place, node] : before) out.push_back(node);
      out.push_back(n);
    });
    for (const Node* n : later)
      if (places.contains(n)) out.push_back(n);
    return out;
  }

  int saved(const Value* v) {
    Saved s;
    if (const auto it = input_of_.find(v); it != input_of_.end() && !written_.contains(v) && !copied_.contains(v)) {
      s = {Saved::From::Input, it->second};
    } else if (const auto made = output_of_.find(v); made != output_of_.end() && !copied_.contains(v)) {
      s = {Saved::From::Output, made->second};
    } else {
      s = {Saved::From::Output, static_cast<int>(joint_.first_gradient + extra_.size())};
      output_of_[v] = s.index;
      // An input that is an output is a copy, too.
      extra_.push_back(copied_.erase(v) != 0 && v->producer ? copy_of(v) : v);
    }
    const auto [it, added] = saved_.try_emplace(v, static_cast<int>(out_.saved.size()));
    if (added) out_.saved.push_back(s);
    return it->second;
  }

  const Value* copy_of(const Value* v) {
    Builder b(*graph_, v->producer->next);
    b.source = v->producer->source;
    Value* const copy = b("aten::clone", {const_cast<Value*>(v), MemoryFormat::Preserve});
    VESTA_CHECK(copy->type == v->type, "a copy of %{} has another type", v->id);
    return copy;
  }

  // `first_tangent`: the half's input.
  Output output_of(const JointPart& part, int gradient, size_t first_tangent, const ExprMap& map, Value* value) const {
    Output out = graph_->outputs[static_cast<size_t>(gradient)];
    out.value = value;
    if (out.kind == OutputKind::Fresh) return out;
    const auto tangent = std::ranges::find(part.tangents, out.alias);
    VESTA_CHECK(tangent != part.tangents.end(), "a gradient shows a tangent of another part");
    out.alias = static_cast<int>(first_tangent) + static_cast<int>(tangent - part.tangents.begin());
    if (out.kind != OutputKind::InputView) return out;
    out.type = mapped(out.type, map);
    out.storage_offset = map(out.storage_offset);
    return out;
  }

  BackwardHalf half_of(const JointPart& part) {
    const Needs needs = needs_of(part);
    BackwardHalf half;
    half.graph = std::make_unique<Graph>();
    Graph& to = *half.graph;
    std::unordered_map<Expr, Expr> symbols;
    for (size_t i = 0; i < graph_->symbols.size(); ++i) {
      const Expr s = graph_->symbols[i].symbol;
      const ExprNode& n = *s.node();
      symbols.emplace(s, to.context->size_symbol(n.name, n.hint, n.lower));
      to.symbols.push_back({.symbol = symbols.at(s), .input = -1, .dim = static_cast<int>(i)});
    }
    const ExprMap map = [&](Expr e) {
      return e.is_constant() ? e : substitute(e, [&](Expr symbol) { return symbols.at(symbol); });
    };
    for (const Guard& g : graph_->guards) to.guards.push_back({map(g.left), g.relation, map(g.right), g.source});
    std::unordered_map<const Value*, Value*> values;
    const auto add_input = [&](const Value* v, const std::string& name) {
      values[v] = to.add_input(mapped(v->type, map), InputKind::Argument, name);
      constexpr int64_t kFresh = 16;  // memory of PyTorch's allocators is aligned to more
      const auto given = input_of_.find(v);
      const bool is_input = given != input_of_.end() && static_cast<size_t>(given->second) < joint_.first_tangent;
      if (v->type.device.type == DeviceType::CUDA)
        to.inputs.back().alignment = is_input ? graph_->inputs[static_cast<size_t>(given->second)].alignment : kFresh;
    };
    for (const Value* v : needs.saved) {
      half.saved.push_back(saved(v));
      add_input(v, "saved" + std::to_string(half.saved.size() - 1));
    }
    for (size_t i = 0; i < part.tangents.size(); ++i) {
      const Input& in = graph_->inputs[static_cast<size_t>(part.tangents[i])];
      add_input(in.value, in.name);
    }
    half.results = part.results;
    half.takes = part.takes;
    half.inputs = part.inputs;
    half.gives = part.gives;
    for (const Node* n : in_order_of_use(needs.nodes)) add_copy(to, *n, map, values);
    std::unordered_map<const Value*, int> places;
    for (size_t i = 0; i < part.gradients.size(); ++i) {
      const Value* const v = graph_->outputs[static_cast<size_t>(part.gradients[i])].value;
      const auto [it, added] = places.try_emplace(v, static_cast<int>(to.outputs.size()));
      if (added) to.outputs.push_back(output_of(part, part.gradients[i], half.saved.size(), map, values.at(v)));
      half.gradients.push_back(it->second);
    }
    return half;
  }

  std::unique_ptr<Graph> graph_;
  const Joint& joint_;
  const std::unordered_set<const Value*> chosen_;
  std::unordered_set<const Value*> copied_;  // what is read of a copy that is not yet made
  Halves out_;
  std::unordered_set<const Node*> backward_;
  std::unordered_map<const Value*, int> input_of_, saved_;
  std::unordered_map<const Value*, int> output_of_;  // that gives the value, or its copy
  std::unordered_set<const Value*> written_;
  std::vector<const Value*> extra_;  // outputs of the forward half for the backward half alone
};

}  // namespace

int checkpoint_of(const Joint& joint, const Value& v) {
  const auto after = std::ranges::upper_bound(joint.checkpoints, v.id, {}, &CheckpointRegion::first);
  if (after == joint.checkpoints.begin() || v.id >= std::prev(after)->end) return -1;
  return static_cast<int>(after - joint.checkpoints.begin()) - 1;
}

bool can_run_again(const Graph& graph) {
  for (const Node* n = graph.first(); n; n = n->next)
    if (!is_pure(*n)) return false;
  return graph.mutations.empty();
}

const Op& detach_op() {
  static const Op& op = declare_op("aten::detach(Tensor(a) self) -> Tensor(a)");
  return op;
}

const Op& alias_op() {
  static const Op& op = declare_op("aten::alias(Tensor(a) self) -> Tensor(a)");
  return op;
}

static bool says_history(const Node& n) { return n.op == &detach_op() || n.op == &alias_op(); }

bool has_history_nodes(const Graph& graph) {
  for (const Node* n = graph.first(); n; n = n->next)
    if (says_history(*n)) return true;
  return false;
}

void drop_history_nodes(Graph& graph) {
  graph.for_each_node([&](Node* n) {
    if (!says_history(*n)) return;
    graph.replace_uses(n->results.at(0), n->input(0));
    graph.erase(n);
  });
}

std::unique_ptr<Graph> copy_program(Graph& graph, const Joint& joint) {
  const size_t gradients_end = graph.outputs.size();
  for (const Crossing& c : joint.crossings) graph.outputs.push_back({.value = c.value});
  std::unique_ptr<Graph> out = copy(graph);
  graph.outputs.resize(gradients_end);
  out->outputs.erase(out->outputs.begin() + static_cast<ptrdiff_t>(joint.first_gradient),
                     out->outputs.begin() + static_cast<ptrdiff_t>(gradients_end));
  for (const Node* n = joint.first_backward; n; n = n->next) out->erase(out->last());
  out->inputs.resize(joint.first_tangent);
  return out;
}

Halves split(std::unique_ptr<Graph> graph, const Joint& joint, std::span<Value* const> saved,
             std::span<Value* const> copied) {
  return Splitter(std::move(graph), joint, saved, copied).run();
}

}  // namespace vesta::graph
