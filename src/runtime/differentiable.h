// A program that records gradients: a forward half, whose results get nodes of ours in autograd's graph, and a backward
// half for each of its parts (graph/joint.h). A call crosses neither Python nor torch's engine.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/backward.h"
#include "runtime/executable.h"
#include "vesta/activation_report.h"

namespace vesta::runtime {

// One part of the backward pass. Indices are those of the halves (graph/joint.h).
struct BackwardPart {
  std::vector<int> saved, results, inputs, gradients;
  std::vector<bool> contiguous;  // by result: its tangent is contiguous; else it has the strides of the result
  // The program for tangents in these states; the first call for other states than Dense compiles it. Outputs are None
  // where a gradient is undefined. nullptr: the compile takes longer than the options allow, or has failed.
  // Thread-safe.
  std::function<std::shared_ptr<const Executable>(std::span<const TangentState>)> program;
  // The same for one call, by calls of the operators: the results for the inputs of the program. Throws what an
  // operator throws.
  std::function<std::vector<at::Tensor>(std::span<const TangentState>, std::span<const at::Tensor> inputs,
                                        std::span<const int64_t> sizes)>
      by_operators;
};

struct Differentiable {
  std::shared_ptr<const Executable> forward;
  size_t returned = 0;
  std::vector<History> histories;  // by output that is returned
  std::vector<Saved> saved;
  std::vector<int> sizes;
  std::vector<BackwardPart> parts;
  ActivationReport activations;
  // Runs the program once more on the same inputs, by calls of its operators that autograd records, and returns these
  // outputs of the forward half. It serves derivatives of gradients: the backward halves have none of their own. Empty:
  // the program cannot run again, because it draws random numbers or writes its inputs.
  using Again = std::function<std::vector<at::Tensor>(std::span<const at::Tensor> inputs,
                                                      std::span<const int64_t> sizes, std::span<const int> outputs)>;
  Again again;
};

// As Executable::run(); the outputs have a gradient where eager's have one. Gradient mode must be on.
void run(const std::shared_ptr<const Differentiable>& program, const CallInputs& in, std::vector<c10::IValue>& outputs);

}  // namespace vesta::runtime
