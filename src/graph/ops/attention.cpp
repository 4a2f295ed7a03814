// Attention: calls into ATen's flash kernel.
#include "base/check.h"
#include "graph/ops/broadcast.h"
#include "graph/ops/iterator_strides.h"
#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

using Results = std::vector<TensorType>;

// The backward kernel writes [batch, sequence, heads, size] and returns it transposed.
TensorType transposed(const TensorType& like, Sizes sizes) {
  TensorType out = contiguous_like(like, {sizes[0], sizes[2], sizes[1], sizes[3]});
  std::swap(out.sizes[1], out.sizes[2]);
  std::swap(out.strides[1], out.strides[2]);
  return out;
}

void flash(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& q = args.tensor(0);
  const TensorType& k = args.tensor(1);
  const TensorType& v = args.tensor(2);
  VESTA_USER_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "attention needs four dimensions");
  VESTA_USER_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, "attention: operands of different types");
  VESTA_USER_CHECK(q.sizes[3] == v.sizes[3] || g.equal(q.sizes[3], v.sizes[3]), "attention: head sizes differ");
  TensorType sums = contiguous_like(q, {q.sizes[0], q.sizes[2], q.sizes[1]}, opmath(q.dtype));
  std::swap(sums.sizes[1], sums.sizes[2]);
  std::swap(sums.strides[1], sums.strides[2]);
  TensorType out = q;
  out.strides = preserved_strides(g, q);
  results = {out, sums};
}
void flash_backward(const NodeArgs& args, Guards&, Results& results) {
  results.clear();
  for (const char* name : {"query", "key", "value"})
    results.push_back(transposed(args.tensor(name), args.tensor(name).sizes));
}

constexpr OpRow kRows[] = {
    {.name = "aten::_scaled_dot_product_flash_attention_for_cpu", .shape = flash, .flags = kExpensive},
    {.name = "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     .shape = flash_backward,
     .flags = kExpensive},
};

}  // namespace

std::span<const OpRow> attention_rows() { return kRows; }

}  // namespace vesta::graph
