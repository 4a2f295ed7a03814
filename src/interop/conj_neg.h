// Tensors whose elements show as conjugated or negated (torch's lazy bits).
#pragma once

#include <ATen/core/Tensor.h>

#include "base/type.h"

namespace vesta {

// A view with each of these bits flipped.
at::Tensor with_bits(const at::Tensor& t, ConjNegBits bits);

}  // namespace vesta
