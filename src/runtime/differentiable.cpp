#include "runtime/differentiable.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <map>

#include "base/fault.h"
#include "runtime/backward_node.h"
#include "runtime/kept_versions.h"

namespace vesta::runtime {
namespace {

// The result with the history that eager gives it; its memory would give it another one.
at::Tensor with_history(const at::Tensor& t, History history) {
  if (history == History::Released || history == History::Detached || !t.is_view()) return t.detach();
  const at::NoGradGuard off;
  const at::Tensor base(t._base());
  return at::as_strided(history == History::DetachedView ? base.detach() : base, t.sizes(), t.strides(),
                        t.storage_offset());
}

// The nodes of a call. A node that is made later runs earlier, if both could run.
class CallNodes {
 public:
  CallNodes(const std::shared_ptr<const Differentiable>& program, const CallInputs& in) : program_(*program), in_(in) {
    make_places(0);
    for (size_t i = 0; i < program_.parts.size(); ++i) {
      auto& segments = parts_.emplace_back();
      for (size_t s = std::max<size_t>(program_.parts[i].segments.size(), 1); s-- > 0;) {
        segments.push_back(make_autograd_node<BackwardNode>(program, i, s));
        segments.back()->note_inputs(in);
      }
      make_places(i + 1);
    }
    for (const Crossing& c : program_.crossings)
      if (c.place >= 0 && c.next < 0)
        input_edges_.emplace(c.next, torch::autograd::impl::gradient_edge(in.tensor(static_cast<size_t>(-1 - c.next))));
  }

  // Before views of the results are made.
  void connect(std::span<const c10::IValue> outputs) {
    crossings_.resize(program_.crossings.size());
    for (size_t i = 0; i < crossings_.size(); ++i)
      if (const Crossing& c = program_.crossings[i]; c.place < 0 && c.output >= 0)
        crossings_[i] = torch::autograd::impl::gradient_edge(
            outputs[static_cast<size_t>(c.output)].toTensor().set_requires_grad(true));
    connect_places(0, outputs);
    for (size_t i = 0; i < parts_.size(); ++i) {
      NodePointer next;
      for (const auto& node : parts_[i]) {
        node->connect(in_, crossings_, next);
        next = node;
      }
      parts_[i].back()->connect_results(in_, outputs, crossings_);
      connect_places(i + 1, outputs);
    }
    for (const auto& segments : parts_) segments.back()->note_hooks(crossings_);
    set_histories(outputs);
  }

  // Once all outputs are there.
  void finish(std::span<const c10::IValue> outputs) {
    set_histories(outputs);
    for (const auto& segments : parts_) segments.back()->save(in_, outputs);
  }

 private:
  void make_places(size_t after) {
    for (const HookPlace& p : program_.places)
      if (p.after == after) places_.push_back(make_autograd_node<HookNode>());
  }

  void connect_places(size_t after, std::span<const c10::IValue> outputs) {
    for (size_t i = 0; i < places_.size(); ++i) {
      const HookPlace& place = program_.places[i];
      if (place.after != after) continue;
      torch::autograd::edge_list edges;
      for (const int c : place.crossings) {
        const int next = program_.crossings[static_cast<size_t>(c)].next;
        edges.push_back(next < 0 ? input_edges_.at(next) : crossings_[static_cast<size_t>(next)]);
      }
      places_[i]->set_next_edges(std::move(edges));
      for (const int c : place.crossings)
        crossings_[static_cast<size_t>(c)] = {places_[i], places_[i]->add_input_metadata(example_of(
                                                              program_.crossings[static_cast<size_t>(c)], outputs))};
    }
  }

  // Of the outputs with hooks that are there.
  void set_histories(std::span<const c10::IValue> outputs) const {
    for (size_t i = 0; i < crossings_.size(); ++i) {
      const int output = program_.crossings[i].output;
      if (output < 0 || program_.crossings[i].place < 0 || !outputs[static_cast<size_t>(output)].isTensor()) continue;
      torch::autograd::impl::set_gradient_edge(outputs[static_cast<size_t>(output)].toTensor(), crossings_[i]);
    }
  }

  const Differentiable& program_;
  const CallInputs& in_;
  using Made = decltype(make_autograd_node<BackwardNode>(std::shared_ptr<const Differentiable>(), 0, 0));
  std::vector<std::vector<Made>> parts_;  // each from its last segment to its first
  std::vector<NodePointer> places_;
  std::map<int, torch::autograd::Edge> input_edges_;
  torch::autograd::edge_list crossings_;  // where a gradient goes that crosses there
};

// Gives a result a history that raises on each way to what it leads to.
void release(const at::Tensor& t, const ReleasedResult& result, const CallInputs& in,
             std::span<const c10::IValue> outputs) {
  torch::autograd::edge_list edges;
  for (const int target : result.leads_to) {
    const at::Tensor& to =
        target >= 0 ? in.tensor(static_cast<size_t>(target)) : outputs[static_cast<size_t>(-1 - target)].toTensor();
    if (to.requires_grad()) edges.push_back(torch::autograd::impl::gradient_edge(to));
  }
  torch::autograd::set_history(
      t, make_autograd_node<torch::autograd::Error>(torch::autograd::ERR_BACKWARD_TWICE, std::move(edges)));
}

bool is_input(const CallInputs& in, const at::Tensor& t) {
  for (size_t i = 0; i < in.tensor_count(); ++i)
    if (in.tensor(i).is_same(t)) return true;
  return false;
}

}  // namespace

void run(const std::shared_ptr<const Differentiable>& program, const CallInputs& in,
         std::vector<c10::IValue>& outputs) {
  fault::reached("gradients");
  std::vector<c10::IValue> all;
  CallNodes nodes(program, in);
  {
    const KeptVersions versions(in, program->unseen_writes);
    program->forward->run(in, all, {}, [&](std::span<const c10::IValue> fresh) { nodes.connect(fresh); });
  }
  nodes.finish(all);
  const size_t first = outputs.size();
  for (size_t i = 0; i < program->returned; ++i) {
    c10::IValue& v = all[i];
    const History history = program->histories[i];
    const bool has_another =
        history != History::Recorded && v.isTensor() && (history == History::Released || v.toTensor().requires_grad());
    if (has_another && !is_input(in, v.toTensor())) v = with_history(v.toTensor(), history);
    outputs.push_back(std::move(v));
  }
  for (const ReleasedResult& result : program->released)
    if (const at::Tensor& t = outputs[first + static_cast<size_t>(result.output)].toTensor(); !is_input(in, t))
      release(t, result, in, std::span(outputs).subspan(first));
}

}  // namespace vesta::runtime
