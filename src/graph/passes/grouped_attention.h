// Gives attention kernels of a GPU the keys and values that several heads share once, instead of copies for each head
// (repeat_kv in models with grouped-query attention). The kernels of FlashAttention and cuDNN read them for each group
// of heads, as they do for `enable_gqa=True`.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool share_keys_of_groups(Graph& graph, const PassContext& context);
}
