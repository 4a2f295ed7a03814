// Attention of one query for each head, a decode step over a cache of keys and values, becomes arithmetic: the products
// of the query with the keys, a softmax, and the sum of the values with these weights, in F32, rounded once. It fuses
// with what makes the mask and with views of the cache (heads that share keys are not repeated in memory), and every
// thread has keys of its own. Libraries' kernels share the work by queries. For GPUs.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool write_one_query_attention(Graph& graph, const PassContext& context);
}
