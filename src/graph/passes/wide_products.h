// Turns products (aten::linear) of one input with several weights into one product with the weights side by side, on a
// GPU: queries, keys and values, or the gate and the input of a layer. One large product keeps more of the GPU busy
// than several small ones. The weights side by side are a copy of them, which Options::packed_weights must allow,
// except for kernels of few rows: these read each weight where it is (PassContext::computes_product).
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool write_wide_products(Graph& graph, const PassContext& context);
}
