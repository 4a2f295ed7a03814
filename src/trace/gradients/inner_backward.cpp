#include "trace/gradients/inner_backward.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "trace/gradients/joint.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

class InnerPass {
 public:
  InnerPass(Recorder& r, const InnerBackward& call, const std::vector<JointInput>& inputs)
      : recorder_(r), call_(call), inputs_(inputs) {
    // One graph would keep what the region is to compute again.
    if (!r.checkpoints.regions().empty()) VESTA_UNSUPPORTED("a backward pass goes through a checkpoint region");
    for (const JointInput& in : inputs)
      if (in.history.is_valid()) ends_.insert(in.history.function.get());
    for (size_t i = 0; i < call.results.size(); ++i) {
      const Edge edge = edge_of(call.results[i]);
      TORCH_CHECK(edge.is_valid(), "element ", i, " of tensors does not require grad and does not have a grad_fn");
      starts_.push_back(edge.function);
      roots_.push_back(edge);
    }
    for (const at::Tensor& t : call.inputs) {
      const Edge edge = edge_of(t);
      TORCH_CHECK(edge.is_valid(), "One of the differentiated Tensors does not require grad");
      if (call.accumulates && !t.is_leaf())
        VESTA_UNSUPPORTED("a backward pass accumulates into a tensor that is no leaf");
      wanted_.push_back(edge);
    }
    for_each_node(starts_, {}, [&](const NodePointer& n) { look_at(n); });
  }

  InnerGradients run(ReleasedNodes& released) {
    NodeWalk walk(recorder_, ends_);
    for (size_t i = 0; i < roots_.size(); ++i) walk.add(roots_[i], fake(call_.tangents[i]));
    std::map<std::pair<const Node*, uint32_t>, at::Tensor> passed;  // through inputs that are no leaves
    const Ends needed = needed_nodes();
    std::vector<NodePointer> ran;
    walk.run(starts_, [&](const NodePointer& n, const variable_list& given) {
      for (const Edge& e : wanted_)
        if (e.function == n && e.input_nr < given.size()) passed[{n.get(), e.input_nr}] = given[e.input_nr];
      if (!wanted_.empty() && !needed.contains(n.get())) return false;
      ran.push_back(n);
      return true;
    });
    InnerGradients out;
    if (wanted_.empty()) {
      for (const JointInput& in : inputs_)
        if (in.history.is_valid()) keep(walk.arrived(in.history), in.history.function.get(), out);
      for (const auto& [node, leaf] : leaves_) keep(walk.arrived({node, 0}), node.get(), out);
    }
    for (const Edge& e : wanted_) {
      const auto it = passed.find({e.function.get(), e.input_nr});
      const at::Tensor gradient = it != passed.end() ? it->second : walk.arrived(e);
      if (call_.accumulates)
        keep(gradient, e.function.get(), out);
      else
        out.captured.push_back(gradient);
      TORCH_CHECK(call_.allows_unused || gradient.defined(),
                  "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                  "if this is the desired behavior.");
    }
    if (!call_.keeps_graph) release(ran, released);
    return out;
  }

 private:
  at::Tensor fake(const at::Tensor& t) const {
    if (!t.defined() || traced(t)) return t;
    recorder_.alias_of(t);
    return recorder_.fake_of(t);
  }

  Edge edge_of(const at::Tensor& t) const {
    const at::Tensor f = fake(t);
    return f.requires_grad() ? torch::autograd::impl::gradient_edge(f) : Edge();
  }

  // What a trace cannot repeat is refused before anything is recorded.
  void look_at(const NodePointer& node) {
    const bool hooks = !node->pre_hooks().empty() || !node->post_hooks().empty() || !node->tensor_pre_hooks().empty() ||
                       !node->retains_grad_hooks().empty();
    if (hooks) VESTA_UNSUPPORTED("a hook on a tensor of a backward pass inside the program");
    if (call_.creates_graph && recorder_.gradients->function_of(*node))
      VESTA_UNSUPPORTED("a gradient of a gradient of a custom autograd.Function");
    const auto* const leaf = dynamic_cast<const AccumulateGrad*>(node.get());
    if (!leaf || ends_.contains(node.get())) return;
    if (!traced(leaf->variable)) VESTA_UNSUPPORTED("a backward pass reaches a leaf that the program has not used");
    ends_.insert(node.get());
    leaves_.emplace_back(node, leaf->variable);
  }

  // Nodes on a way from the results to a tensor whose gradient is wanted.
  Ends needed_nodes() const {
    Ends out;
    if (wanted_.empty()) return out;
    std::vector<NodePointer> nodes;
    for_each_node(starts_, ends_, [&](const NodePointer& n) { nodes.push_back(n); });
    // A node is made after those it leads to.
    std::ranges::sort(nodes, {}, [](const NodePointer& n) { return n->sequence_nr(); });
    const auto leads_there = [&](const Edge& e) {
      return e.is_valid() && (out.contains(e.function.get()) ||
                              std::ranges::any_of(wanted_, [&](const Edge& w) { return w.function == e.function; }));
    };
    for (bool grew = true; grew;) {  // one pass does, unless a node was numbered out of order
      grew = false;
      for (const NodePointer& n : nodes)
        if (!ends_.contains(n.get()) && std::ranges::any_of(n->next_edges(), leads_there))
          grew |= out.insert(n.get()).second;
    }
    return out;
  }

  void keep(const at::Tensor& gradient, const Node* end, InnerGradients& out) const {
    if (!gradient.defined()) return;
    const auto in = std::ranges::find(inputs_, end, [](const JointInput& x) { return x.history.function.get(); });
    if (in == inputs_.end()) {
      const auto made = std::ranges::find(leaves_, end, [](const auto& leaf) { return leaf.first.get(); });
      out.leaves.push_back({made->second, copy_of(gradient, made->second)});
      return;
    }
    if (!in->real.is_leaf()) VESTA_UNSUPPORTED("a backward pass inside the program goes through an input");
    if (has_gradient_hooks(in->real)) VESTA_UNSUPPORTED("a hook on the gradient of a leaf");
    out.leaves.push_back({in->real, copy_of(gradient, in->fake)});
  }

  // As AccumulateGrad keeps it: with a history only if the pass creates a graph.
  at::Tensor copy_of(const at::Tensor& gradient, const at::Tensor& leaf) const {
    if (call_.creates_graph) return gradient.clone();
    return recorder_.fresh(in_layout_of_leaf(recorder_, gradient, leaf));
  }

  void release(const std::vector<NodePointer>& ran, ReleasedNodes& released) const {
    for (const NodePointer& n : ran) {
      n->release_variables();
      if (!saves_nothing(*n) && released.nodes.insert(n.get()).second) released.kept.push_back(n);
    }
  }

  Recorder& recorder_;
  const InnerBackward& call_;
  const std::vector<JointInput>& inputs_;
  Ends ends_;
  std::vector<std::pair<NodePointer, at::Tensor>> leaves_;  // that the program has made
  std::vector<NodePointer> starts_;
  std::vector<Edge> roots_, wanted_;
};

}  // namespace

InnerGradients run_backward(Recorder& r, const InnerBackward& call, const std::vector<JointInput>& inputs,
                            ReleasedNodes& released) {
  return InnerPass(r, call, inputs).run(released);
}

InnerGradients run_backward(const InnerBackward& call) {
  Recorder* const r = Recorder::current();
  VESTA_CHECK(r, "a backward pass is traced outside of a trace");
  if (!r->gradients) throw NeedsGradients("needs gradients: the program runs a backward pass");
  return r->gradients->run_backward(call);
}

bool is_released(const at::Tensor& t, const Ends& released) {
  if (released.empty() || !t.requires_grad()) return false;
  bool found = false;
  for_each_node({torch::autograd::impl::gradient_edge(t).function}, {},
                [&](const NodePointer& n) { found |= released.contains(n.get()); });
  return found;
}

bool has_gradient_hooks(const at::Tensor& leaf) {
  if (!leaf.requires_grad()) return false;
  if (!torch::autograd::impl::hooks(leaf).empty() || torch::autograd::impl::post_acc_grad_hooks(leaf)) return true;
  const auto node = torch::autograd::impl::try_get_grad_accumulator(leaf);
  return node && (!node->pre_hooks().empty() || !node->post_hooks().empty() || !node->tensor_pre_hooks().empty());
}

}  // namespace vesta::trace
