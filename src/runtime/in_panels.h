// The operator vesta::in_panels, which lays a constant weight out as the tiles of a product's kernel read it
// (loops/register_product.h). PyTorch's dispatcher knows it, so that a run calls it like every operator.
#pragma once

#include <ATen/core/Tensor.h>

namespace vesta::runtime {

// The rows of a weight, of sizes [row, inner...], as [panel][inner...][row of the panel]. Rows that the last panel
// lacks are zeros. The last inner dimension of bfloat16, which is even, is divided into pairs: [panel][inner..., pair]
// [row of the panel][element of the pair].
at::Tensor in_panels(const at::Tensor& weight, int64_t panel);

// Makes the operator known to PyTorch, once per process.
void declare_in_panels();

}  // namespace vesta::runtime
