// Matrix products of few rows on tensor cores. Such a product reads each weight once, so memory bounds it, and a kernel of
// ours takes along what is done with its result.
#pragma once

#include "graph/graph.h"
#include "loops/dag.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// Whether a kernel computes the node, a matrix product, at least as fast as the library.
bool is_kernel_product(const graph::Node& node, const Target& target);

// The tiles for a dag whose ranges are the row, the column and the inner range of products. nullopt: it sums something
// else, or its accesses are not those of tiles.
std::optional<loops::ProductTile> choose_product(const loops::Dag& dag, const Target& target);

}  // namespace vesta::schedule
