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

// Which values a segment of a part reads and gives, by their numbers in the part.
struct SegmentWires {
  std::vector<uint32_t> inputs;  // of the part: the saved tensors, then the tangents that are defined
  std::vector<int64_t> outputs;  // of the part; negative: undefined
  std::vector<uint32_t> reads, gives;
  std::vector<bool> last;       // parallel to `reads`: whether no later segment needs this value
  std::vector<uint32_t> drops;  // released when the segment has run: its results that no later segment needs, and,
                                // for the first segment, inputs that no segment reads
  size_t values = 0;            // size of an array that these numbers index
};

// Segments run one after another, each as a node of autograd's graph (graph/segments.h).
struct BackwardSegment {
  using States = std::span<const TangentState>;
  std::vector<int> gradients;  // positions in BackwardPart::gradients
  // The program for tangents in these states; the first call for other states than Dense compiles it. Outputs are None
  // where a gradient is undefined. nullptr: the compile takes longer than the options allow, or has failed.
  // Thread-safe.
  std::function<std::shared_ptr<const Executable>(States)> program;
  // The same for one call, by calls of the operators: the results for the inputs of the program. Throws what an
  // operator throws.
  std::function<std::vector<at::Tensor>(States, std::span<const at::Tensor> inputs, std::span<const int64_t> sizes)>
      by_operators;
  // The run of the program has failed before it gave up an input: by_operators() takes its place. Called in the handler
  // of the exception, which it may throw on.
  std::function<void(States)> failed;
  // If the part has several segments; else the program takes the inputs of the part, and gives its outputs.
  std::function<std::shared_ptr<const SegmentWires>(States)> wires;
};

// One part of the backward pass. Indices are those of the halves (graph/joint.h).
struct BackwardPart {
  std::vector<int> saved, results, takes, inputs, gives, gradients;
  std::vector<bool> contiguous;           // by result: its tangent is contiguous; else it has the strides of the result
  std::vector<BackwardSegment> segments;  // none: it gives no gradient
};

// As graph::Crossing.
struct Crossing {
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  std::vector<int64_t> sizes;  // as graph::Halves::crossing_sizes
  int place = -1, next = -1, output = -1;
  int value = -1;  // what it is the gradient of: an output of the program that runs again
};

struct Differentiable {
  std::shared_ptr<const Executable> forward;
  size_t returned = 0;
  std::vector<History> histories;        // by output that is returned
  std::vector<ReleasedResult> released;  // in an order in which none leads to a later one
  std::vector<int> unseen_writes;        // trace::Traced::unseen_writes
  std::vector<Saved> saved;
  std::vector<int> sizes;
  std::vector<BackwardPart> parts;
  std::vector<Crossing> crossings;
  std::vector<HookPlace> places;
  ActivationReport activations;
  // Runs the program once more on the same inputs, by calls of its operators that autograd records, and returns these
  // of its outputs: those of the forward half, and the values of crossings. It serves derivatives of gradients: the
  // backward halves have none of their own. Empty: the program cannot run again, because it draws random numbers or
  // writes its inputs.
  struct Given {
    std::vector<int> outputs;  // the run begins with them, and with inputs
    std::function<at::Tensor(size_t i, const at::Tensor&)> with_history;
  };
  using Again =
      std::function<std::vector<at::Tensor>(std::span<const at::Tensor> inputs, std::span<const int64_t> sizes,
                                            std::span<const int> outputs, const Given& given)>;
  Again again;
};

// As Executable::run(); the outputs have a gradient where eager's have one. Gradient mode must be on.
void run(const std::shared_ptr<const Differentiable>& program, const CallInputs& in, std::vector<c10::IValue>& outputs);

}  // namespace vesta::runtime
