// BufferLookup that integer tensors name: what gathers and scatters share.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace vesta::loops {

inline bool is_place(const graph::TensorType& t) { return t.dtype == DType::I64 || t.dtype == DType::I32; }

// The indices of index.Tensor and index_put: their common dimensions stand where the indexed ones were, or first if
// those are not neighbours.
struct Indexing {
  std::vector<const graph::Value*> by_dim;  // nullptr: the whole dimension
  size_t before = 0;                        // dimensions of the result before the indices'
  size_t dims = 0;                          // of the indices, broadcast
};
Indexing indexing(const graph::Node& node);

}  // namespace vesta::loops
