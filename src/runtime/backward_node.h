// The nodes of a compiled program in autograd's graph.
#pragma once

#include <ATen/core/DimVector.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interop/autograd_node.h"
#include "runtime/differentiable.h"

namespace vesta::runtime {

// Saves tensors as nodes of PyTorch do: versions are checked, the caller's hooks on saved tensors are called, and the
// first backward pass frees them unless it retains the graph.
struct BackwardPass;

// A part of the backward pass, or a segment of it. The node of the first segment gets the tangents and saves tensors;
// its last edge leads to the node of the next segment, and brings the values that are still to be read.
class BackwardNode final : public torch::autograd::Node {
 public:
  // `part`: an index of program->parts. `segment`: of its segments.
  BackwardNode(std::shared_ptr<const Differentiable> program, size_t part, size_t segment);

  // Takes the histories of the inputs, before the run writes to any.
  void note_inputs(const CallInputs& in);
  // Sets the edges to the nodes that get the gradients, before any edge leads to this node. `crossings`: by number, the
  // edge of each crossing. `next`: the node of the next segment, if any.
  void connect(const CallInputs& in, std::span<const torch::autograd::Edge> crossings, const NodePointer& next);
  // ---- of the first segment
  // Makes the histories of the results and of written inputs, before views of them are made, and the edges of the
  // crossings that the part takes. `outputs`: of the forward half.
  void connect_results(const CallInputs& in, std::span<const c10::IValue> outputs,
                       std::vector<torch::autograd::Edge>& crossings);
  // Notes where the tensors that the part takes have hooks. All parts must have their edges by then.
  void note_hooks(std::span<const torch::autograd::Edge> crossings);
  // Saves what the backward half needs, once all outputs are there.
  void save(const CallInputs& in, std::span<const c10::IValue> outputs);

  // Calls `done` when the part has run in a backward pass, and again when the leaves to which its last segment gives
  // gradients have them, unless only some gradients are asked for. Before the node is used.
  void when_done(std::function<void()> done);

  std::string name() const override { return "VestaBackward"; }
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;

 private:
  const BackwardPart& part() const { return program_->parts[part_]; }
  std::vector<at::Tensor> take_saved();
  at::Tensor as_result(const at::Tensor& tangent, size_t i, TangentState& state) const;
  c10::intrusive_ptr<BackwardPass> begin(torch::autograd::variable_list&& tangents);
  torch::autograd::variable_list gradients_of(BackwardPass& pass) const;
  torch::autograd::variable_list run(BackwardPass& pass) const;
  std::vector<c10::IValue> run_program(const BackwardPass& pass, std::vector<at::Tensor> inputs) const;
  // The gradients by a further run of the program, which autograd records: they have derivatives if `creates_graph`,
  // and tangents may be of any kind that operators take.
  torch::autograd::variable_list by_program(const torch::autograd::variable_list& tangents, bool creates_graph);
  torch::autograd::edge_list edges_of_part() const;
  bool is_last() const { return segment_ + 1 >= part().segments.size(); }

  std::shared_ptr<const Differentiable> program_;
  const size_t part_, segment_;
  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<int64_t> sizes_;
  std::vector<at::DimVector> strides_;  // by tangent
  torch::autograd::edge_list edges_;    // of the inputs whose gradients this segment gives
  // For derivatives of the gradients: the program's inputs, and their versions.
  std::vector<at::Tensor> inputs_;
  std::vector<uint32_t> versions_;
  // By crossing that the part takes, where the gradient of its tensor is before hooks are called. These nodes lead to
  // this one. Empty: the tensor has no hooks.
  std::vector<std::optional<std::pair<WeakNodePointer, uint32_t>>> hooks_;
  bool is_released_ = false;
  std::function<void()> done_;  // if there is one, the node of its second call has the last edge
};

// Only calls the hooks that are put on it, and passes on what they give.
class HookNode final : public torch::autograd::Node {
 public:
  std::string name() const override { return "VestaHooks"; }

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

// A tensor without memory of its own that says what the gradient at a crossing looks like. `outputs`: of the forward
// half.
at::Tensor example_of(const Crossing& crossing, std::span<const c10::IValue> outputs);

}  // namespace vesta::runtime
