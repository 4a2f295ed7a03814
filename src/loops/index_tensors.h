// Index tensors: integer tensors whose elements are indices into another tensor. Gathers and scatters share this.
//
// Guarantees that no kernel reads or writes out of bounds: each operator's row names the checks of its index tensors
// (ops/rows.h), and the schedule runs them before the kernel unless surely_holds() proves them. Lowering::place() may
// not be used for an index tensor that no check names.
#pragma once

#include "graph/graph.h"

namespace vesta::loops {

inline bool is_index_type(const graph::TensorType& t) { return t.dtype == DType::I64 || t.dtype == DType::I32; }

// The indices of index.Tensor and index_put. Their common dimensions replace the indexed dimensions where those are
// neighbours; otherwise they come first.
struct Indexing {
  std::vector<const graph::Value*> by_dim;  // nullptr: the whole dimension
  size_t before = 0;                        // dimensions of the result before those of the indices
  size_t dims = 0;                          // of the indices, broadcast
};
Indexing indexing(const graph::Node& node);

// Every element i of `index` must be in [0, size), or in [-size, size) where negative ones count from the end
// (`wraps`).
struct IndexCheck {
  const graph::Value* index = nullptr;
  Expr size;
  bool wraps = false;
  bool operator==(const IndexCheck&) const = default;
};
using IndexCheckFn = std::vector<IndexCheck> (*)(const graph::Node& node);
// The checks that the lowering of this node relies on.
std::vector<IndexCheck> index_checks(const graph::Node& node);
// Whether sizes alone prove the check (indices made by arange).
bool surely_holds(const IndexCheck& check, const std::shared_ptr<ExprContext>& context);

// Checks of operators with one index tensor, argument 2, along `dim`.
std::vector<IndexCheck> checks_along_dim(const graph::Node& node);
// Checks of operators that index like x[i, :, j].
std::vector<IndexCheck> checks_of_indexing(const graph::Node& node);

}  // namespace vesta::loops
