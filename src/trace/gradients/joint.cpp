#include "trace/gradients/joint.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/compile_memory.h"
#include "graph/graph.h"
#include "interop/autograd_node.h"
#include "trace/gradients/formulas.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using graph::Output;
using graph::OutputKind;
using torch::autograd::Node;
using torch::autograd::variable_list;

// The names of nodes that save no tensor (derivatives.yaml of PyTorch), without "Backward" and a number.
bool saves_nothing(const Node& node) {
  static const std::unordered_set<std::string_view> names{
      "Add",    "Sub",       "Rsub",    "Neg",          "Sum",        "Mean",      "Clone",
      "ToCopy", "View",      "Reshape", "ReshapeAlias", "Expand",     "Permute",   "Transpose",
      "T",      "Unsqueeze", "Squeeze", "Select",       "Slice",      "Split",     "SplitWithSizes",
      "Unbind", "Cat",       "Stack",   "Alias",        "UnsafeView", "AsStrided", "Narrow",
      "Chunk",  "Unflatten"};
  const std::string name = node.name();
  return names.contains(std::string_view(name).substr(0, name.find("Backward")));
}

// A result with a gradient of its own, as graph::JointPart::results numbers them.
struct Root {
  at::Tensor tensor;
  int output;
};

class Walk {
 public:
  Walk(Recorder& r, const std::vector<JointInput>& inputs) : recorder_(r) {
    for (const JointInput& in : inputs) {
      if (in.history.is_valid()) ends_.emplace(in.history.function.get(), &in);
    }
  }

  bool reaches_an_input(const Root& root) const {
    bool found = false;
    for_each_node({torch::autograd::impl::gradient_edge(root.tensor).function},
                  [&](Node& n) { found |= ends_.contains(&n); });
    return found;
  }

  // Results that share a node which saves something belong together.
  std::vector<std::vector<Root>> parts_of(const std::vector<Root>& roots) const {
    std::vector<std::pair<std::vector<Root>, std::unordered_set<const Node*>>> parts;
    for (const Root& root : roots) {
      std::unordered_set<const Node*> saving;
      for_each_node({torch::autograd::impl::gradient_edge(root.tensor).function}, [&](Node& n) {
        if (!ends_.contains(&n) && !saves_nothing(n)) saving.insert(&n);
      });
      std::vector<Root> together;
      std::erase_if(parts, [&](auto& part) {
        const bool shares = std::ranges::any_of(saving, [&](const Node* n) { return part.second.contains(n); });
        if (!shares) return false;
        together.insert(together.end(), part.first.begin(), part.first.end());
        saving.insert(part.second.begin(), part.second.end());
        return true;
      });
      together.push_back(root);
      parts.emplace_back(std::move(together), std::move(saving));
    }
    std::vector<std::vector<Root>> out;
    for (auto& part : parts) {
      std::ranges::sort(part.first, {}, &Root::output);
      out.push_back(std::move(part.first));
    }
    return out;
  }

  graph::JointPart run(const std::vector<Root>& roots) {
    graph::JointPart out;
    buffers_.clear();
    std::vector<NodePointer> starts;
    for (const Root& root : roots) {
      const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(root.tensor);
      out.tangents.push_back(static_cast<int>(recorder_.graph().inputs.size()));
      out.results.push_back(root.output);
      add(edge, tangent_for(root));
      starts.push_back(edge.function);
    }
    evaluate(starts);
    for (const auto& [node, end] : ends_) {
      const auto found = buffers_.find(node);
      if (found == buffers_.end()) continue;
      const at::Tensor gradient = found->second.at(0);
      if (gradient.defined()) found_.emplace_back(end->input, value_for(*end, gradient));
    }
    std::ranges::sort(found_, {}, &std::pair<int, graph::Value*>::first);
    for (const auto& [input, value] : found_) {
      out.gradients.push_back(static_cast<int>(recorder_.graph().outputs.size()));
      out.inputs.push_back(input);
      recorder_.graph().outputs.push_back({.value = value});
    }
    found_.clear();
    return out;
  }

 private:
  // Every node that is reached once, those where the walk ends included. Ends lead nowhere.
  template <class F>
  void for_each_node(std::vector<NodePointer> open, F&& f) const {
    std::unordered_set<const Node*> seen;
    for (const NodePointer& n : open) seen.insert(n.get());
    while (!open.empty()) {
      const NodePointer node = std::move(open.back());
      open.pop_back();
      f(*node);
      if (ends_.contains(node.get())) continue;
      for (const torch::autograd::Edge& e : node->next_edges())
        if (e.is_valid() && seen.insert(e.function.get()).second) open.push_back(e.function);
    }
  }

  at::Tensor tangent_for(const Root& root) {
    graph::TensorType type = recorder_.type_of(root.tensor);
    graph::Value* v = recorder_.graph().add_input(std::move(type), graph::InputKind::Argument,
                                                  "tangent" + std::to_string(tangents_++));
    return recorder_.fresh(v);
  }

  void add(const torch::autograd::Edge& to, at::Tensor gradient) {
    variable_list& buffer = buffers_[to.function.get()];
    buffer.resize(std::max<size_t>({buffer.size(), to.function->num_inputs(), to.input_nr + size_t{1}}));
    at::Tensor& sum = buffer[to.input_nr];
    if (!gradient.defined()) return;
    sum = sum.defined() ? at::add(sum, gradient) : std::move(gradient);
  }

  static variable_list apply(const NodePointer& node, variable_list&& given) {
    try {
      std::optional<variable_list> ours = derivative(node, given);
      variable_list found = ours ? *std::move(ours) : (*node)(std::move(given));
      torch::autograd::validate_outputs(node->next_edges(), found, [&](const std::string& why) {
        return "Function " + node->name() + " returned an " + why;
      });
      return found;
    } catch (const DeadlinePassed&) {
      throw;
    } catch (const OverBudget&) {
      throw;
    } catch (const std::exception& e) {
      const std::string why = e.what();
      throw FormulaFailed(*node, why.substr(0, why.find('\n')));
    }
  }

  void evaluate(const std::vector<NodePointer>& starts) {
    std::unordered_map<const Node*, int> waits;
    std::unordered_set<const Node*> reached;
    for_each_node(starts, [&](Node& n) {
      reached.insert(&n);
      if (ends_.contains(&n)) return;
      for (const torch::autograd::Edge& e : n.next_edges())
        if (e.is_valid()) ++waits[e.function.get()];
    });
    const auto later = [](const NodePointer& a, const NodePointer& b) { return a->sequence_nr() < b->sequence_nr(); };
    std::priority_queue<NodePointer, std::vector<NodePointer>, decltype(later)> ready(later);
    std::unordered_set<const Node*> queued;
    for (const NodePointer& n : starts)
      if (waits[n.get()] == 0 && queued.insert(n.get()).second) ready.push(n);
    while (!ready.empty()) {
      const NodePointer node = ready.top();
      ready.pop();
      if (ends_.contains(node.get())) continue;
      if (dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) continue;  // of a leaf of another program
      variable_list given = std::move(buffers_[node.get()]);
      given.resize(std::max<size_t>(given.size(), node->num_inputs()));
      variable_list found;
      if (std::ranges::any_of(given, [](const at::Tensor& t) { return t.defined(); })) {
        recorder_.source = node->name();
        found = apply(node, std::move(given));
      }
      for (size_t i = 0; i < node->num_outputs(); ++i) {
        const torch::autograd::Edge& e = node->next_edge(i);
        if (!e.is_valid()) continue;
        add(e, i < found.size() ? found[i] : at::Tensor());
        if (--waits[e.function.get()] == 0 && queued.insert(e.function.get()).second) ready.push(e.function);
      }
    }
  }

  // What AccumulateGrad keeps without a copy of its own: a gradient in the layout of its leaf.
  graph::Value* value_for(const JointInput& end, const at::Tensor& gradient) {
    graph::Value* value = recorder_.value_of(gradient);
    const graph::TensorType own = recorder_.type_of(end.fake);
    graph::TensorType want = value->type;
    if (end.real.is_leaf())
      want.strides = graph::is_non_overlapping_and_dense(own) ? own.strides : graph::contiguous_strides(want.sizes);
    else if (!graph::is_non_overlapping_and_dense(want))
      want.strides = graph::contiguous_strides(want.sizes);
    bool is_laid_out = true;  // strides of dimensions with one element are arbitrary
    for (size_t d = 0; d < want.dim(); ++d)
      is_laid_out &= want.sizes[d].is_constant(1) || want.strides[d] == value->type.strides[d];
    if (is_laid_out) return value;
    return recorder_.add_node(graph::get_op("aten::clone"), {value, graph::None()}, {want})->results.at(0);
  }

  Recorder& recorder_;
  std::unordered_map<const Node*, const JointInput*> ends_;
  std::unordered_map<const Node*, variable_list> buffers_;
  std::vector<std::pair<int, graph::Value*>> found_;
  int tangents_ = 0;
};

History history_of(const c10::IValue& v) {
  if (!v.isTensor() || !v.toTensor().defined()) return History::Recorded;
  const at::Tensor& t = v.toTensor();
  if (!t.requires_grad()) return t.is_view() ? History::DetachedView : History::Detached;
  return t.is_view() && !t.grad_fn() ? History::Unrecorded : History::Recorded;
}

// The results that autograd's node of the program gets a gradient for. Views of them are made again in every call, and
// autograd follows these.
std::vector<Root> roots_of(Recorder& r, const std::vector<c10::IValue>& results,
                           const std::vector<JointInput>& inputs) {
  const std::vector<Output>& outputs = r.graph().outputs;
  std::vector<Root> roots;
  std::unordered_set<size_t> taken;
  const auto take = [&](const at::Tensor& t, size_t output) {
    if (!taken.insert(output).second) return;
    roots.push_back({t, static_cast<int>(output)});
  };
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].isTensor() || !results[i].toTensor().defined()) continue;
    const at::Tensor t = results[i].toTensor();
    if (!t.requires_grad() || history_of(results[i]) != History::Recorded) continue;
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
    roots.push_back({in.fake, -1 - in.input});
  }
  return roots;
}

}  // namespace

graph::Joint add_backward(Recorder& r, const std::vector<c10::IValue>& results, const std::vector<JointInput>& inputs) {
  graph::Graph& g = r.graph();
  graph::Joint joint{.first_tangent = g.inputs.size(), .first_gradient = g.outputs.size()};
  graph::Node* const last = g.last();
  const size_t guards = g.guards.size();
  const int64_t operators = r.op_count;
  for (const c10::IValue& v : results) joint.histories.push_back(history_of(v));
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
  Walk walk(r, inputs);
  std::vector<Root> roots = roots_of(r, results, inputs);
  std::erase_if(roots, [&](const Root& root) { return !walk.reaches_an_input(root); });
  for (const std::vector<Root>& part : walk.parts_of(roots)) joint.parts.push_back(walk.run(part));
  if (r.failure) std::rethrow_exception(r.failure);
  joint.first_backward = last ? last->next : g.first();
  restore.release();
  return joint;
}

}  // namespace vesta::trace
