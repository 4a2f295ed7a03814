// Attention: calls into ATen's kernels.
#include <algorithm>
#include <array>

#include "graph/ops/rows.h"
#include "graph/rules/broadcast.h"
#include "graph/rules/iterator_strides.h"

namespace vesta::graph {
namespace {

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
  VESTA_USER_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, "attention: the operands have different types");
  VESTA_USER_CHECK(q.sizes[3] == v.sizes[3] || g.equal(q.sizes[3], v.sizes[3]), "attention: the head sizes differ");
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

// CUDA's kernels, for [batch, heads, sequence, size]. Results that are undefined or integers have no type.
const TensorType kNothing{.dtype = DType::Other};

TensorType on_device_of(const TensorType& like, DType dtype, std::vector<Expr> sizes) {
  TensorType t;
  t.dtype = dtype;
  t.device = like.device;
  t.strides = contiguous_strides(sizes);
  t.sizes = std::move(sizes);
  return t;
}

void require_attention(const NodeArgs& args) {
  for (const size_t i : {0, 1, 2}) VESTA_USER_CHECK(args.tensor(i).dim() == 4, "attention needs four dimensions");
}

void flash_cuda(const NodeArgs& args, Guards& g, Results& results) {
  require_attention(args);
  const TensorType& q = args.tensor(0);
  TensorType out = q;
  out.strides = preserved_strides(g, q);
  results = {out,
             on_device_of(q, DType::F32, {q.sizes[0], q.sizes[1], q.sizes[2]}),
             kNothing,
             kNothing,
             kNothing,
             kNothing,
             on_device_of(q, DType::U64, {2}),
             on_device_of(q, DType::U64, {}),
             on_device_of(q, q.dtype, {0})};
}

void efficient_cuda(const NodeArgs& args, Guards&, Results& results) {
  require_attention(args);
  const TensorType& q = args.tensor(0);
  const Expr batch = q.sizes[0], heads = q.sizes[1], rows = q.sizes[2], size = args.tensor(2).sizes[3];
  TensorType out = on_device_of(q, q.dtype, {batch, rows, heads, size});
  std::swap(out.sizes[1], out.sizes[2]);
  std::swap(out.strides[1], out.strides[2]);
  const Expr sums = args.boolean("compute_log_sumexp") ? floordiv(rows + 31, 32) * 32 : Expr(0);
  TensorType state = on_device_of(q, DType::I64, {});
  state.device = Device{};
  results = {out, on_device_of(q, DType::F32, {batch, heads, sums}), state, state};
}

void cudnn(const NodeArgs& args, Guards& g, Results& results) {
  require_attention(args);
  const TensorType& q = args.tensor(0);
  TensorType out = q;
  out.sizes[3] = args.tensor(2).sizes[3];
  if (out.sizes == q.sizes) {
    out.strides = preserved_strides(g, q);
  } else {  // in the order of the query's dimensions
    std::array<size_t, 4> order = {0, 1, 2, 3};
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return hint(q.strides[a]) > hint(q.strides[b]); });
    Expr stride = 1;
    for (size_t n = order.size(); n-- > 0;) {
      out.strides[order[n]] = stride;
      stride = stride * out.sizes[order[n]];
    }
  }
  TensorType state = on_device_of(q, DType::I64, {});
  state.device = Device{};
  results = {out,      on_device_of(q, DType::F32, {q.sizes[0], q.sizes[1], q.sizes[2], 1}),
             kNothing, kNothing,
             kNothing, kNothing,
             state,    state,
             kNothing};
}

constexpr OpRow kRows[] = {
    {.name = "aten::_scaled_dot_product_flash_attention",
     .shape = flash_cuda,
     .flags = kExpensive | kRandom,
     .role = Role::Attention},
    {.name = "aten::_scaled_dot_product_efficient_attention",
     .shape = efficient_cuda,
     .flags = kExpensive | kRandom,
     .role = Role::Attention},
    {.name = "aten::_scaled_dot_product_cudnn_attention",
     .shape = cudnn,
     .flags = kExpensive | kRandom,
     .role = Role::Attention},
    call("aten::_scaled_dot_product_flash_attention_for_cpu", flash, kExpensive),
    call("aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_backward, kExpensive),
};

}  // namespace

std::span<const OpRow> attention_rows() { return kRows; }

}  // namespace vesta::graph
