// Shapes of advanced indexing, x[i, :, j], as ATen's AdvancedIndex makes them.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

struct IndexPlan {
  std::vector<int64_t> order;   // dimensions of x in the order they take: as they are, or the indexed ones first
  size_t before = 0;            // result dimensions before the indices' own
  Sizes index_sizes;            // the broadcast size of the indices
  std::vector<Value*> indices;  // per dimension in `order`; nullptr: a whole dimension
};
// Throws NeedsValue for Bool masks, whose result size depends on their values, and UserError for indices that do not
// fit.
IndexPlan plan_index(Guards& g, const TensorType& x, const ValueList& indices);

TensorType index_result(Guards& g, const TensorType& x, const ValueList& indices);

}  // namespace vesta::graph
