// Matrix products of few rows on tensor cores. Such a product reads each weight once, so memory bounds it, and a kernel
// of ours also computes what follows.
#pragma once

#include "graph/graph.h"
#include "loops/dag.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// Whether a kernel computes a product of these sizes in half types at least as fast as the library.
bool computes_product(int64_t rows, int64_t columns, int64_t inner, const Target& target);

// Whether a kernel computes the node: it is such a product, and its operands can be copied in pieces. It may be worth a
// kernel only together with another product of the same rows, where what is made of both results meets.
bool is_kernel_product(const graph::Node& node, const Target& target);

// The tiles for a dag whose ranges are the row, the column and the inner range of products. nullopt: it computes
// something else, or its operands cannot be copied in pieces.
std::optional<loops::ProductTile> choose_product(const loops::Dag& dag, const Target& target);

// The tile with as many stages as shared memory has room for.
loops::ProductTile with_stages(loops::ProductTile tile, size_t sums, const Target& target);

}  // namespace vesta::schedule
