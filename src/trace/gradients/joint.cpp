#include "trace/gradients/joint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "graph/graph.h"
#include "interop/autograd_node.h"
#include "trace/gradients/crossings.h"
#include "trace/gradients/inner_backward.h"
#include "trace/gradients/node_walk.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using graph::Output;
using graph::OutputKind;
using torch::autograd::Edge;
using torch::autograd::Node;

class Walk {
 public:
  Walk(Recorder& r, const std::vector<JointInput>& inputs, const std::vector<Root>& leaves)
      : recorder_(r), inputs_(inputs) {
    for (const JointInput& in : inputs)
      if (in.history.is_valid()) ends_.insert(in.history.function.get());
    for (const Root& leaf : leaves) ends_.insert(leaf.edge.function.get());
  }

  const Ends& ends() const { return ends_; }

  // Or a leaf of the program's own.
  bool reaches_an_input(const Root& root) const {
    bool found = false;
    for_each_node({root.edge.function}, ends_, [&](const NodePointer& n) { found |= ends_.contains(n.get()); });
    return found;
  }

  // Roots that share a node which saves something belong together. So do those that share another node, if neither part
  // saves anything: then none of them can be freed before the others.
  static std::vector<std::vector<Root>> parts_of(const std::vector<Root>& roots, const Ends& ends) {
    struct Part {
      std::vector<Root> roots;
      std::unordered_set<const Node*> saving, others;
    };
    const auto share = [](const std::unordered_set<const Node*>& a, const std::unordered_set<const Node*>& b) {
      return std::ranges::any_of(a, [&](const Node* n) { return b.contains(n); });
    };
    std::vector<Part> parts;
    for (const Root& root : roots) {
      Part made;
      for_each_node({root.edge.function}, ends, [&](const NodePointer& n) {
        if (!ends.contains(n.get())) (saves_nothing(*n) ? made.others : made.saving).insert(n.get());
      });
      std::erase_if(parts, [&](Part& part) {
        const bool save_nothing = made.saving.empty() && part.saving.empty();
        if (!share(made.saving, part.saving) && !(save_nothing && share(made.others, part.others))) return false;
        made.roots.insert(made.roots.end(), part.roots.begin(), part.roots.end());
        made.saving.merge(part.saving);
        made.others.merge(part.others);
        return true;
      });
      made.roots.push_back(root);
      parts.push_back(std::move(made));
    }
    std::vector<std::vector<Root>> out;
    for (Part& part : parts) {
      std::ranges::sort(part.roots, {}, [](const Root& r) { return std::pair(r.is_crossing, r.number); });
      out.push_back(std::move(part.roots));
    }
    return out;
  }

  graph::JointPart run(const std::vector<Root>& roots, const Ends& ends, const Crossings& crossings) {
    graph::JointPart out;
    NodeWalk walk(recorder_, ends);
    std::vector<NodePointer> starts;
    for (const Root& root : roots) {
      out.tangents.push_back(static_cast<int>(recorder_.graph().inputs.size()));
      (root.is_crossing ? out.takes : out.results).push_back(root.number);
      walk.add(root.edge, tangent_for(root.is_crossing ? crossings.crossings[static_cast<size_t>(root.number)].type
                                                       : recorder_.type_of(root.tensor)));
      starts.push_back(root.edge.function);
    }
    walk.run(starts);
    const auto give = [&](Output made) {
      out.gradients.push_back(static_cast<int>(recorder_.graph().outputs.size()));
      recorder_.graph().outputs.push_back(std::move(made));
    };
    for (const JointInput& in : inputs_) {
      if (!in.history.is_valid()) continue;
      const at::Tensor gradient = walk.arrived(in.history);
      if (!gradient.defined()) continue;
      give(output_of(in, gradient));
      out.inputs.push_back(in.input);
    }
    for (const auto& [at, crossing] : crossings.entries()) {
      if (!ends.contains(at.function.get())) continue;
      const at::Tensor gradient = walk.arrived(at);
      if (!gradient.defined()) continue;
      give({.value = dense(gradient)});
      out.gives.push_back(crossing);
    }
    return out;
  }

 private:
  at::Tensor tangent_for(graph::TensorType type) {
    // A tensor with the strides of an expanded result could not hold another gradient for each element.
    if (!graph::is_non_overlapping_and_dense(type)) type.strides = graph::contiguous_strides(type.sizes);
    graph::Value* v = recorder_.graph().add_input(std::move(type), graph::InputKind::Argument,
                                                  "tangent" + std::to_string(tangents_.size()));
    at::Tensor made = recorder_.fresh(v);
    tangents_.emplace(recorder_.alias_of(made).storage.get(), static_cast<int>(recorder_.graph().inputs.size()) - 1);
    return made;
  }

  // A gradient that is a tangent, or a view of one, is so in eager, too. Autograd copies it where it needs other
  // memory.
  Output output_of(const JointInput& end, const at::Tensor& gradient) {
    Alias& alias = recorder_.alias_of(gradient);
    const auto tangent = tangents_.find(alias.storage.get());
    if (tangent == tangents_.end()) return {.value = value_for(end, gradient)};
    graph::Value* const whole = recorder_.graph().inputs[static_cast<size_t>(tangent->second)].value;
    if (alias.storage->base != whole) return {.value = value_for(end, gradient)};  // a hook has written to it
    graph::TensorType type = recorder_.type_of(gradient);
    Output out{.value = read_memory(recorder_, alias), .alias = tangent->second, .conj_neg = alias.conj_neg};
    const Expr offset = recorder_.offset_of(gradient);
    if (type == whole->type && offset.is_constant(0) && !alias.conj_neg.any()) {
      out.kind = OutputKind::Input;
      return out;
    }
    out.kind = OutputKind::InputView;
    out.type = std::move(type);
    out.storage_offset = offset;
    return out;
  }

  graph::Value* value_for(const JointInput& end, const at::Tensor& gradient) {
    return end.real.is_leaf() ? in_layout_of_leaf(recorder_, gradient, end.fake) : dense(gradient);
  }

  graph::Value* dense(const at::Tensor& gradient) {
    graph::Value* const value = recorder_.value_of(gradient);
    if (graph::is_non_overlapping_and_dense(value->type)) return value;
    graph::TensorType want = value->type;
    want.strides = graph::contiguous_strides(want.sizes);
    return recorder_.add_node(graph::get_op("aten::clone"), {value, graph::None()}, {want})->results.at(0);
  }

  Recorder& recorder_;
  const std::vector<JointInput>& inputs_;
  Ends ends_;
  std::unordered_map<const Storage*, int> tangents_;  // by memory: inputs of the graph
};

History history_of(const c10::IValue& v, const Ends& released) {
  if (!v.isTensor() || !v.toTensor().defined()) return History::Recorded;
  const at::Tensor& t = v.toTensor();
  if (!t.requires_grad()) return t.is_view() ? History::DetachedView : History::Detached;
  if (is_released(t, released)) return History::Released;
  return t.is_view() && !t.grad_fn() ? History::Unrecorded : History::Recorded;
}

// What a further pass from results whose history is freed could be asked for. Eager raises there, unless the pass meets
// no node that is freed: no call has these gradients either.
std::vector<ReleasedResult> released_results(const std::vector<c10::IValue>& results,
                                             const std::vector<JointInput>& inputs,
                                             std::span<const History> histories) {
  std::vector<std::pair<uint64_t, int>> order;  // a node is made after those it leads to
  std::vector<std::pair<Edge, int>> targets;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].isTensor() || !results[i].toTensor().defined() || !results[i].toTensor().requires_grad()) continue;
    Edge edge = torch::autograd::impl::gradient_edge(results[i].toTensor());
    if (histories[i] == History::Released) order.emplace_back(edge.function->sequence_nr(), static_cast<int>(i));
    if (histories[i] == History::Released || histories[i] == History::Recorded)
      targets.emplace_back(std::move(edge), -1 - static_cast<int>(i));
  }
  if (order.empty()) return {};
  for (const JointInput& in : inputs)
    if (in.history.is_valid()) targets.emplace_back(in.history, in.input);
  std::ranges::sort(order);
  std::vector<ReleasedResult> out;
  std::unordered_set<int> known;
  for (const auto& [number, output] : order) {
    const Edge start = torch::autograd::impl::gradient_edge(results[static_cast<size_t>(output)].toTensor());
    std::set<std::pair<const Node*, uint32_t>> reached;
    for_each_node({start.function}, {}, [&](const NodePointer& n) {
      for (const Edge& e : n->next_edges())
        if (e.is_valid()) reached.emplace(e.function.get(), e.input_nr);
    });
    ReleasedResult& result = out.emplace_back(ReleasedResult{.output = output});
    for (const auto& [edge, target] : targets) {
      if (!reached.contains({edge.function.get(), edge.input_nr})) continue;
      const bool is_later = target < 0 && histories[static_cast<size_t>(-1 - target)] == History::Released &&
                            !known.contains(-1 - target);
      if (!is_later) result.leads_to.push_back(target);
    }
    known.insert(output);
  }
  return out;
}

// Results that are leaves which the program has made.
std::vector<Root> leaves_of(const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs) {
  std::vector<Root> out;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].isTensor() || !results[i].toTensor().defined()) continue;
    const at::Tensor& t = results[i].toTensor();
    const auto is_own = [&](const JointInput& in) { return in.fake.is_same(t); };
    if (traced(t) && t.is_leaf() && t.requires_grad() && std::ranges::none_of(inputs, is_own))
      out.push_back({.edge = torch::autograd::impl::gradient_edge(t), .tensor = t, .number = static_cast<int>(i)});
  }
  return out;
}

// The results that autograd's node of the program gets a gradient for. Views of them are made again in every call, and
// autograd follows these.
std::vector<Root> roots_of(Recorder& r, const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs,
                           std::span<const History> histories) {
  const std::vector<Output>& outputs = r.graph().outputs;
  std::vector<Root> roots;
  std::unordered_set<size_t> taken;
  const auto take = [&](const at::Tensor& t, size_t output) {
    if (!taken.insert(output).second) return;
    roots.push_back({torch::autograd::impl::gradient_edge(t), t, static_cast<int>(output)});
  };
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].isTensor() || !results[i].toTensor().defined()) continue;
    const at::Tensor t = results[i].toTensor();
    if (!t.requires_grad() || histories[i] != History::Recorded) continue;
    const Output& o = outputs[i];
    if (o.kind == OutputKind::Fresh) take(t, i);
    if (o.kind != OutputKind::OutputView) continue;
    const auto base = static_cast<size_t>(o.alias);
    if (base < results.size()) {
      if (!results[base].toTensor().requires_grad())
        VESTA_UNSUPPORTED("a result requires a gradient, and another one in the same memory requires none");
      continue;
    }
    const at::Tensor whole = t.is_view() ? at::Tensor(t._base()) : at::Tensor();
    const TracedTensorImpl* impl = whole.defined() ? traced(whole) : nullptr;
    if (!impl || !whole.requires_grad() || impl->alias().conj_neg.any() || r.value_of(whole) != outputs[base].value)
      VESTA_UNSUPPORTED("a result is a view of memory that no result shows as a whole");
    take(whole, base);
  }
  for (const JointInput& in : inputs) {
    const auto is_written = [&](const graph::Mutation& m) { return m.input == in.input; };
    if (!in.fake.requires_grad() || std::ranges::none_of(r.graph().mutations, is_written)) continue;
    // It was written while gradient mode was off.
    if (in.fake.is_leaf() || in.fake.grad_fn() == in.history.function) continue;
    roots.push_back({torch::autograd::impl::gradient_edge(in.fake), in.fake, -1 - in.input});
  }
  return roots;
}

}  // namespace

graph::Joint add_backward(Recorder& r, const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs,
                          const ReleasedNodes& released, std::span<const HookedResult> hooked) {
  graph::Graph& g = r.graph();
  graph::Joint joint{.first_tangent = g.inputs.size(), .first_gradient = g.outputs.size()};
  graph::Node* const last = g.last();
  const size_t guards = g.guards.size();
  const int64_t operators = r.op_count;
  for (const c10::IValue& v : results) joint.histories.push_back(history_of(v, released.nodes));
  joint.released = released_results(results, inputs, joint.histories);
  auto restore = c10::make_scope_exit([&] {
    while (g.outputs.size() > joint.first_gradient) g.outputs.pop_back();
    while (g.last() != last) g.erase(g.last());
    g.inputs.resize(joint.first_tangent);
    g.guards.erase(g.guards.begin() + static_cast<ptrdiff_t>(guards), g.guards.end());
    r.failure = nullptr;
  });
  r.in_backward = true;
  const auto leave = c10::make_scope_exit([&] {
    r.in_backward = false;
    r.source.clear();
    r.op_count = operators;
  });
  const at::AutoGradMode off(false);
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const std::vector<Root> leaves = leaves_of(results, inputs);
  Walk walk(r, inputs, leaves);
  std::vector<Root> roots = roots_of(r, results, inputs, joint.histories);
  std::erase_if(roots, [&](const Root& root) {
    return walk.ends().contains(root.edge.function.get()) || !walk.reaches_an_input(root);
  });
  Crossings crossings(r.gradients->history, inputs, hooked, leaves, roots, walk.ends());
  // A call gives a result with hooks the history that its crossing has.
  std::erase_if(roots, [&](const Root& root) { return crossings.is_hooked(root.edge); });
  for (int level = crossings.deepest(); level >= 0; --level) {
    std::vector<Root> own = crossings.roots_of(level);
    std::ranges::copy_if(roots, std::back_inserter(own),
                         [&](const Root& root) { return crossings.level(root.edge) == level; });
    const Ends ends = crossings.ends_of(level);
    for (const std::vector<Root>& part : Walk::parts_of(own, ends))
      joint.parts.push_back(walk.run(part, ends, crossings));
    crossings.say_parts_done(level, joint.parts.size());
  }
  joint.crossings = std::move(crossings.crossings);
  joint.places = std::move(crossings.places);
  if (r.failure) std::rethrow_exception(r.failure);
  joint.first_backward = last ? last->next : g.first();
  restore.release();
  return joint;
}

}  // namespace vesta::trace
