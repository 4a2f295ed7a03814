// The node of a compiled program in autograd's graph.
#pragma once

#include <ATen/core/DimVector.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <string>
#include <vector>

#include "interop/autograd_node.h"
#include "runtime/differentiable.h"

namespace vesta::runtime {

// Saves tensors as nodes of PyTorch do: versions are checked, the caller's hooks on saved tensors are called, and the
// first backward pass frees them unless it retains the graph.
class BackwardNode final : public torch::autograd::Node {
 public:
  // `part`: an index of program->parts.
  BackwardNode(std::shared_ptr<const Differentiable> program, size_t part);

  // Takes the histories of the inputs, before the run writes to any.
  void connect_inputs(const CallInputs& in);
  // Makes the histories of the results and of written inputs, before views of them are made. `outputs`: of the forward
  // half.
  void connect_results(const CallInputs& in, std::span<const c10::IValue> outputs);
  // Saves what the backward half needs, once all outputs are there.
  void save(const CallInputs& in, std::span<const c10::IValue> outputs);

  std::string name() const override { return "VestaBackward"; }
  void release_variables() override;

 protected:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;

 private:
  const BackwardPart& part() const { return program_->parts[part_]; }
  std::vector<at::Tensor> take_saved();
  at::Tensor as_result(const at::Tensor& tangent, size_t i, TangentState& state) const;
  torch::autograd::variable_list run(torch::autograd::variable_list&& tangents);
  // The gradients by a further run of the program, which autograd records: they have derivatives if `creates_graph`,
  // and tangents may be of any kind that operators take.
  torch::autograd::variable_list by_program(const torch::autograd::variable_list& tangents, bool creates_graph);

  std::shared_ptr<const Differentiable> program_;
  const size_t part_;
  std::vector<torch::autograd::SavedVariable> saved_;
  std::vector<int64_t> sizes_;
  std::vector<at::DimVector> strides_;  // by result
  // For derivatives of the gradients: the program's inputs, and their versions.
  std::vector<at::Tensor> inputs_;
  std::vector<uint32_t> versions_;
  bool is_released_ = false;
};

}  // namespace vesta::runtime
