// Order statistics and counting: calls into ATen with known shapes.
#include "graph/ops/rows.h"
#include "graph/rules/reduced_dims.h"

namespace vesta::graph {
namespace {

TensorType as_positions(TensorType t) {
  t.dtype = DType::I64;
  return t;
}

void sort(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(!is_complex(x.dtype), "complex numbers have no order");
  wrap_dim(g, args.integer("dim"), x.dim());
  const TensorType out = preserved(g, x);
  results = {out, as_positions(out)};
}
void topk(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(!is_complex(x.dtype), "complex numbers have no order");
  const int64_t d = wrap_dim(g, args.integer("dim"), x.dim());
  const Expr k = args.integer("k");
  VESTA_USER_CHECK(!g.less(k, 0) && !g.less(x.dim() ? x.sizes[d] : Expr(1), k), "topk: k is out of range");
  Sizes sizes = x.sizes;
  if (x.dim() > 0) sizes[d] = k;
  const TensorType out = contiguous_like(x, sizes);
  results = {out, as_positions(out)};
}
void one_along_dim(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType out = reduced(args, g, args.tensor(0).dtype);
  results = {out, as_positions(out)};
}
void scalar(const NodeArgs& args, Guards&, Results& results) { results = {contiguous_like(args.tensor(0), {})}; }
void histc(const NodeArgs& args, Guards&, Results& results) {
  results = {contiguous_like(args.tensor(0), {args.integer("bins")})};
}
void search(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor("self");
  results = {contiguous_like(x, x.sizes, args.boolean("out_int32") ? DType::I32 : DType::I64)};
}

constexpr OpRow kSortingRows[] = {
    call("aten::sort aten::sort.stable", sort),
    call("aten::topk", topk),
    call("aten::median.dim aten::nanmedian.dim aten::mode", one_along_dim),
    call("aten::kthvalue", one_along_dim, kMayRaise),
    call("aten::median aten::nanmedian", scalar),
    call("aten::histc", histc, kMayRaise),
    call("aten::bucketize.Tensor aten::searchsorted.Tensor", search, kMayRaise),
};

}  // namespace

std::span<const OpRow> sorting_rows() { return kSortingRows; }

}  // namespace vesta::graph
