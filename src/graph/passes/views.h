// Shortens chains of views: reshapes of reshapes, permutations of permutations. Drops views that show their tensor
// unchanged. Writes t and transpose as permute, so that later passes match one form.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool canonicalise_views(Graph& graph, const PassContext& context);
}
