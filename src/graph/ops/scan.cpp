// Running combinations along one dimension. Results are contiguous.
#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

void running(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  wrap_dim(g, args.integer("dim"), x.dim());
  const DType own = is_integral(x.dtype) || x.dtype == DType::Bool ? DType::I64 : x.dtype;
  results = {contiguous_like(x, x.sizes, args.dtype("dtype", own))};
}
void running_log(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  wrap_dim(g, args.integer("dim"), x.dim());
  VESTA_USER_CHECK(is_float(x.dtype) || is_complex(x.dtype), "logcumsumexp needs a floating point type");
  results = {contiguous_like(x, x.sizes)};
}
void running_extreme(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  wrap_dim(g, args.integer("dim"), x.dim());
  results = {contiguous_like(x, x.sizes), contiguous_like(x, x.sizes, DType::I64)};
}

constexpr OpRow scan(const char* names, ReduceOp op) {
  return {.names = names, .family = Family::Scan, .shape = running, .reduce = op};
}

constexpr OpRow kScanRows[] = {
    scan("aten::cumsum", ReduceOp::Sum),
    scan("aten::cumprod", ReduceOp::Prod),
    {.names = "aten::logcumsumexp", .family = Family::Scan, .shape = running_log},
    {.names = "aten::cummax", .family = Family::Scan, .shape = running_extreme, .reduce = ReduceOp::Max},
    {.names = "aten::cummin", .family = Family::Scan, .shape = running_extreme, .reduce = ReduceOp::Min},
};

}  // namespace

std::span<const OpRow> scan_rows() { return kScanRows; }

}  // namespace vesta::graph
