// Derivatives whose formulas in PyTorch read values of tensors, as formulas that do not.
#pragma once

#include <optional>

#include "interop/autograd_node.h"

namespace vesta::trace {

// The gradients that the node would give. nullopt: its own formula serves.
std::optional<torch::autograd::variable_list> derivative(const NodePointer& node,
                                                         const torch::autograd::variable_list& gradients);

}  // namespace vesta::trace
