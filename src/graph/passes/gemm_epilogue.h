// Joins an activation to the product with a bias before it, on a GPU: aten::_addmm_activation, which ATen runs as one
// cuBLASLt call that applies relu or gelu to its sums before they are rounded and stored.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {

bool use_gemm_epilogue(Graph& graph, const PassContext& context);

}  // namespace vesta::graph
