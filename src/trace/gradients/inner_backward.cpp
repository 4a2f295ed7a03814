#include "trace/gradients/inner_backward.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>

#include "base/check.h"
#include "trace/gradients/joint.h"
#include "trace/recorder.h"
#include "trace/tensors/wrapped.h"

namespace vesta::trace {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

class InnerPass {
 public:
  InnerPass(Recorder& r, const InnerBackward& call, const std::vector<JointInput>& inputs, PassEvents& events)
      : recorder_(r), call_(call), inputs_(inputs), events_(events) {
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
    needed_ = needed_nodes();
  }

  std::vector<at::Tensor> run(ReleasedNodes& released) {
    NodeWalk walk(recorder_, ends_);
    for (size_t i = 0; i < roots_.size(); ++i) walk.add(roots_[i], fake(call_.tangents[i]));
    walk.run(
        starts_, [&](const NodePointer& n, variable_list& given) { return arrive(n, given); },
        [&](const NodePointer& n, at::Tensor gradient) { arrive_at_end(n, std::move(gradient)); },
        [&](const NodePointer& n, variable_list& found, const variable_list& given) { leave(*n, found, given); });
    std::vector<at::Tensor> captured;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Edge& e = wanted_[i];
      const auto it = passed_.find({e.function.get(), e.input_nr});
      const at::Tensor gradient = it != passed_.end() ? it->second : at::Tensor();
      if (!call_.accumulates) captured.push_back(gradient);
      TORCH_CHECK(call_.allows_unused || gradient.defined(),
                  "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True "
                  "if this is the desired behavior.");
    }
    if (!call_.keeps_graph) release(released);
    return captured;
  }

 private:
  at::Tensor fake(const at::Tensor& t) const {
    if (!t.defined() || traced(t) || is_wrapped(t)) return t;
    recorder_.alias_of(t);
    return recorder_.fake_of(t);
  }

  Edge edge_of(const at::Tensor& t) const {
    const at::Tensor f = fake(t);
    return f.requires_grad() ? torch::autograd::impl::gradient_edge(f) : Edge();
  }

  // What a trace cannot repeat is refused before anything is recorded.
  void look_at(const NodePointer& node) {
    const auto* const leaf = dynamic_cast<const AccumulateGrad*>(node.get());
    if (!leaf || ends_.contains(node.get())) return;
    if (!traced(leaf->variable) && !is_wrapped(leaf->variable))
      VESTA_UNSUPPORTED("a backward pass reaches a leaf that the program has not used");
    ends_.insert(node.get());
    leaves_.emplace_back(node, leaf->variable);
  }

  bool is_wanted(const Node* n) const {
    return std::ranges::any_of(wanted_, [&](const Edge& e) { return e.function.get() == n; });
  }

  // Gradients have arrived at a node. The order is that of Engine::evaluate_function: what is asked for is taken before
  // the hooks run if the node runs, too. False: it does not run.
  bool arrive(const NodePointer& n, variable_list& given) {
    const bool runs = wanted_.empty() || needed_.contains(n.get());
    if (runs) take(n.get(), given);
    if (runs || is_wanted(n.get())) run_hooks(*n, given);
    if (!runs) take(n.get(), given);
    if (!runs) return false;
    ran_.push_back(n);
    if (n->pre_hooks().empty()) return true;
    const Program program(*this);
    for (const auto& hook : n->pre_hooks()) events_.run_node_hook(*hook, given);
    return true;
  }

  // A node has run.
  void leave(Node& n, variable_list& found, const variable_list& given) {
    if (n.post_hooks().empty()) return;
    if (found.empty()) VESTA_UNSUPPORTED("a hook on a node of a backward pass that gets no gradient");
    const Program program(*this);
    for (const auto& hook : n.post_hooks()) events_.run_node_hook(*hook, found, given);
  }

  void take(const Node* n, const variable_list& given) {
    for (const Edge& e : wanted_)
      if (e.function.get() == n && e.input_nr < given.size()) passed_[{n, e.input_nr}] = given[e.input_nr];
  }

  void run_hooks(Node& n, variable_list& given) {
    if (n.tensor_pre_hooks().empty() && n.retains_grad_hooks().empty()) return;
    const Program program(*this);
    for (const auto& hook : n.tensor_pre_hooks()) events_.run_hook(*hook, given);
    for (const auto& [i, hook] : n.retains_grad_hooks()) given = (*hook)(given);
  }

  // The gradient of an input, or of a leaf that the program has made, is whole.
  void arrive_at_end(const NodePointer& n, at::Tensor gradient) {
    if (!wanted_.empty() && !is_wanted(n.get())) return;
    const auto in = std::ranges::find(inputs_, n.get(), [](const JointInput& x) { return x.history.function.get(); });
    const bool is_input = in != inputs_.end();
    if (is_input && !in->real.is_leaf()) {
      if (call_.accumulates && gradient.defined())
        VESTA_UNSUPPORTED("a backward pass inside the program goes through an input");
      passed_[{n.get(), 0}] = gradient;
      return;
    }
    at::Tensor leaf;
    at::Tensor fake;
    if (is_input) {
      leaf = in->real;
      fake = in->fake;
    } else {
      for (const auto& [node, made] : leaves_)
        if (node == n) leaf = fake = made;
      // An input that requires a gradient since the program said so.
      const auto begun = std::ranges::find_if(inputs_, [&](const JointInput& x) { return x.fake.is_same(fake); });
      if (begun != inputs_.end()) leaf = begun->real;
    }
    const Program program(*this);
    gradient = events_.hooked(leaf, gradient);
    passed_[{n.get(), 0}] = gradient;
    if (call_.accumulates && gradient.defined()) events_.accumulate(leaf, copy_of(gradient, fake));
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

  // While it lives, operators reach the trace as those of the program do.
  class Program {
   public:
    explicit Program(InnerPass& pass)
        : above_(pass.recorder_.gradients ? pass.recorder_.gradients->above_autograd()
                                          : Gradients::AboveAutograd(below_)),
          source_(pass.recorder_.source),
          was_(source_) {
      source_.clear();
    }
    ~Program() { source_ = was_; }
    Program& operator=(Program&&) = delete;  // neither copied nor moved

   private:
    bool below_ = false;  // in a trace without gradients
    Gradients::AboveAutograd above_;
    std::string& source_;
    std::string was_;
  };

  // As AccumulateGrad keeps it: with a history only if the pass creates a graph.
  at::Tensor copy_of(const at::Tensor& gradient, const at::Tensor& leaf) const {
    if (call_.creates_graph) return gradient.clone();
    return recorder_.fresh(in_layout_of_leaf(recorder_, gradient, leaf));
  }

  void release(ReleasedNodes& released) const {
    for (const NodePointer& n : ran_) {
      n->release_variables();
      if (!saves_nothing(*n) && released.nodes.insert(n.get()).second) released.kept.push_back(n);
    }
  }

  Recorder& recorder_;
  const InnerBackward& call_;
  const std::vector<JointInput>& inputs_;
  PassEvents& events_;
  Ends ends_, needed_;
  std::vector<std::pair<NodePointer, at::Tensor>> leaves_;  // that the program has made
  std::vector<NodePointer> starts_, ran_;
  std::vector<Edge> roots_, wanted_;
  std::map<std::pair<const Node*, uint32_t>, at::Tensor> passed_;  // the gradients of `wanted_`
};

}  // namespace

std::vector<at::Tensor> run_backward(Recorder& r, const InnerBackward& call, const std::vector<JointInput>& inputs,
                                     ReleasedNodes& released, PassEvents& events) {
  return InnerPass(r, call, inputs, events).run(released);
}

std::vector<at::Tensor> run_backward(const InnerBackward& call, PassEvents& events) {
  Recorder* const r = Recorder::current();
  VESTA_CHECK(r, "a backward pass is traced outside of a trace");
  if (r->gradients) return r->gradients->run_backward(call, events);
  // torch.func's own pass: autograd has followed the wrappers, whatever the trace records.
  if (!std::ranges::any_of(call.results, is_wrapped))
    throw NeedsGradients("needs gradients: the program runs a backward pass");
  const at::AutoGradMode mode(call.creates_graph);
  const auto source = c10::make_scope_exit([&, was = r->source] { r->source = was; });
  ReleasedNodes released;
  return run_backward(*r, call, {}, released, events);
}

bool is_released(const at::Tensor& t, const Ends& released) {
  if (released.empty() || !t.requires_grad()) return false;
  bool found = false;
  for_each_node({torch::autograd::impl::gradient_edge(t).function}, {},
                [&](const NodePointer& n) { found |= released.contains(n.get()); });
  return found;
}

}  // namespace vesta::trace
