// Turns the memsets of a captured graph into kernels. The driver launches a graph of kernels alone, one after another,
// in a few microseconds; one memset in it makes each launch ten times as long, and the kernel after a memset starts
// late.
#pragma once

#include "machine/cuda/graph.h"

namespace vesta::machine {

// `graph`: a CUgraph that has not been instantiated. A memset that no kernel can take the place of stays, as do all of
// them where the driver cannot finish PTX. Throws InternalError if the driver fails in the middle of a change.
void replace_memset_nodes(struct OpaqueGraph* graph);
// The PTX of the kernel `vesta_fill` that takes their place.
const char* fill_ptx();

}  // namespace vesta::machine
