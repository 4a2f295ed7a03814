// Where a program computes with a tensor and keeps its gradient from autograd.
#pragma once

#include <span>

#include "trace/gradients/tape.h"

namespace at {
class Tensor;
}

namespace vesta::trace {

// Whether the program detaches a tensor that requires a gradient, or computes with one while gradient mode is off. Its
// graph has no node for that, so the graph's own operators have other derivatives. `inputs`: the real tensor of each of
// the tape's inputs.
bool cuts_history(const Tape& tape, std::span<const at::Tensor> inputs);

}  // namespace vesta::trace
