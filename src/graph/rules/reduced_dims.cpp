#include "graph/rules/reduced_dims.h"

namespace vesta::graph {
namespace {

IntList asked(const NodeArgs& args) {
  if (!args.has("dim")) return {};
  const Arg& dim = args.get("dim");
  if (const auto* one = std::get_if<Expr>(&dim)) return {*one};
  return std::get<IntList>(dim);
}

}  // namespace

std::vector<bool> reduced_dims(const NodeArgs& args) {
  const size_t n = args.tensor(0).dim();
  const IntList dims = asked(args);
  std::vector<bool> gone(n, dims.empty());
  if (n > 0)
    for (Expr d : dims) gone[wrap_dim(d, n)] = true;
  return gone;
}

std::vector<bool> checked_reduced_dims(const NodeArgs& args, Guards& g) {
  wrap_dims(g, asked(args), args.tensor(0).dim());
  return reduced_dims(args);
}

bool keeps_dims(const NodeArgs& args) { return args.schema().index_of("keepdim") >= 0 && args.boolean("keepdim"); }

TensorType reduced(const NodeArgs& args, Guards& g, DType t) {
  const TensorType& x = args.tensor(0);
  const std::vector<bool> gone = checked_reduced_dims(args, g);
  Sizes sizes;
  for (size_t i = 0; i < x.dim(); ++i) {
    if (!gone[i]) sizes.push_back(x.sizes[i]);
    if (gone[i] && keeps_dims(args)) sizes.push_back(1);
  }
  return contiguous_like(x, sizes, t);
}

Expr reduced_count(const TensorType& x, const std::vector<bool>& gone) {
  Expr n = 1;
  for (size_t i = 0; i < x.dim(); ++i)
    if (gone[i]) n = n * x.sizes[i];
  return n;
}

IntList dim_list(const std::vector<bool>& gone) {
  IntList out;
  for (size_t i = 0; i < gone.size(); ++i)
    if (gone[i]) out.push_back(static_cast<int64_t>(i));
  return out;
}

}  // namespace vesta::graph
