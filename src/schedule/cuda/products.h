// Matrix products of few rows on tensor cores. Such a product reads each weight once, so memory bounds it, and a kernel
// of ours takes along what is done with its result.
#pragma once

#include "graph/graph.h"
#include "loops/dag.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// Kernels compute products of at most so many rows. 0: none.
int64_t most_product_rows(const Target& target);

// Whether a kernel computes the node, a matrix product, at least as fast as the library.
bool is_kernel_product(const graph::Node& node, const Target& target);

// The tiles for a dag whose ranges are the row, the column and the inner range of products. nullopt: it sums something
// else, or its accesses are not those of tiles.
std::optional<loops::ProductTile> choose_product(const loops::Dag& dag, const Target& target);

// The tile with as many stages as shared memory has room for.
loops::ProductTile with_stages(loops::ProductTile tile, size_t sums, const Target& target);

}  // namespace vesta::schedule
