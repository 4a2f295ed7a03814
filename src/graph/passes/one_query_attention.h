// Writes attention with one query per head (a decode step over a cache of keys and values) as arithmetic, on a GPU:
// products of the query with the keys, a softmax, and the sum of the values with these weights, in F32, rounded once.
// The arithmetic fuses with the computation of the mask and with views of the cache, so keys that heads share are not
// repeated in memory, and every thread works on its own keys. The libraries' kernels share the work by queries, of
// which there is one here.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool write_one_query_attention(Graph& graph, const PassContext& context);
}
