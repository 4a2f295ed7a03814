// Reads at indices that integer tensors hold: index, gather, embedding, take.
#include <algorithm>

#include "graph/ops/rows.h"
#include "graph/rules/index_shape.h"

namespace vesta::graph {
namespace {

void index(const NodeArgs& args, Guards& g, Results& results) {
  results = {index_result(g, args.tensor(0), std::get<ValueList>(args[1]))};
}

void index_select(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& i = args.tensor("index");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(i.dim() <= 1 && (i.dtype == DType::I64 || i.dtype == DType::I32),
                   "index_select needs a 1-d tensor of integers");
  Sizes sizes = x.sizes;
  if (x.dim() > 0) sizes[d] = i.dim() == 0 ? Expr(1) : i.sizes[0];
  results = {contiguous_like(x, sizes)};
}

void gather(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& i = args.tensor("index");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  const bool free = is_empty(g, i.sizes);
  VESTA_USER_CHECK(free || i.dtype == DType::I64 || i.dtype == DType::I32, "gather needs integer indices");
  VESTA_USER_CHECK(free || std::max<size_t>(x.dim(), 1) == std::max<size_t>(i.dim(), 1),
                   "gather: the input and the index must have the same number of dimensions");
  if (!free)
    for (size_t k = 0; k < std::min(x.dim(), i.dim()); ++k)
      VESTA_USER_CHECK(static_cast<int64_t>(k) == d || !g.less(x.sizes[k], i.sizes[k]),
                       "gather: the index is larger than the input");
  results = {contiguous_like(x, i.sizes)};
}

void embedding(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& w = args.tensor(0);
  const TensorType& i = args.tensor(1);
  VESTA_USER_CHECK(w.dim() == 2 && (i.dtype == DType::I64 || i.dtype == DType::I32),
                   "embedding needs a matrix and integer indices");
  Sizes sizes = i.sizes;
  sizes.push_back(w.sizes[1]);
  results = {contiguous_like(w, sizes)};
}

void take(const NodeArgs& args, Guards&, Results& results) {
  results = {contiguous_like(args.tensor(0), args.tensor(1).sizes)};
}

constexpr OpRow kIndexingRows[] = {
    indexed("aten::index.Tensor aten::_unsafe_index.Tensor", index, kMayRaise),
    indexed("aten::index_select", index_select, kMayRaise),
    indexed("aten::gather", gather, kMayRaise),
    indexed("aten::embedding", embedding, kMayRaise),
    indexed("aten::take", take, kMayRaise),
};

}  // namespace

std::span<const OpRow> indexing_rows() { return kIndexingRows; }

}  // namespace vesta::graph
