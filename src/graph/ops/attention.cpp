// Attention: calls into ATen's kernels.
#include <algorithm>
#include <array>

#include "graph/ops/rows.h"

namespace vesta::graph {
namespace {

// Kernels that write [batch, sequence, heads, ...] return it transposed.
TensorType transposed(TensorType written) {
  std::swap(written.sizes[1], written.sizes[2]);
  std::swap(written.strides[1], written.strides[2]);
  return written;
}

void flash(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& q = args.tensor(0);
  const TensorType& k = args.tensor(1);
  const TensorType& v = args.tensor(2);
  VESTA_USER_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, "attention needs four dimensions");
  VESTA_USER_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, "attention: the operands have different types");
  VESTA_USER_CHECK(g.equal(q.sizes[3], v.sizes[3]), "attention: the head sizes differ");
  results = {preserved(g, q), transposed(contiguous_like(q, {q.sizes[0], q.sizes[2], q.sizes[1]}, opmath(q.dtype)))};
}
void flash_backward(const NodeArgs& args, Guards&, Results& results) {
  results.clear();
  for (const char* name : {"query", "key", "value"}) {
    const TensorType& x = args.tensor(name);
    results.push_back(transposed(contiguous_like(x, {x.sizes[0], x.sizes[2], x.sizes[1], x.sizes[3]})));
  }
}

// CUDA's kernels, for [batch, heads, sequence, size]. Results that are undefined or integers have no type.
const TensorType kNothing{.dtype = DType::Other};

void require_attention(const NodeArgs& args) {
  for (const size_t i : {0, 1, 2}) VESTA_USER_CHECK(args.tensor(i).dim() == 4, "attention needs four dimensions");
}

void flash_cuda(const NodeArgs& args, Guards& g, Results& results) {
  require_attention(args);
  const TensorType& q = args.tensor(0);
  results = {preserved(g, q),
             contiguous_like(q, {q.sizes[0], q.sizes[1], q.sizes[2]}, DType::F32),
             kNothing,
             kNothing,
             kNothing,
             kNothing,
             contiguous_like(q, {2}, DType::U64),
             contiguous_like(q, {}, DType::U64),
             contiguous_like(q, {0}, q.dtype)};
}

void efficient_cuda(const NodeArgs& args, Guards&, Results& results) {
  require_attention(args);
  const TensorType& q = args.tensor(0);
  const Expr batch = q.sizes[0], heads = q.sizes[1], rows = q.sizes[2], size = args.tensor(2).sizes[3];
  const TensorType out = transposed(contiguous_like(q, {batch, rows, heads, size}));
  const Expr sums = args.boolean("compute_log_sumexp") ? floordiv(rows + 31, 32) * 32 : Expr(0);
  TensorType state = contiguous_like(q, {}, DType::I64);
  state.device = Device{};
  results = {out, contiguous_like(q, {batch, heads, sums}, DType::F32), state, state};
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
  const TensorType state = contiguous_like(q, {}, DType::I64);  // on the GPU, unlike efficient attention's
  results = {out,      contiguous_like(q, {q.sizes[0], q.sizes[1], q.sizes[2], 1}, DType::F32),
             kNothing, kNothing,
             kNothing, kNothing,
             state,    state,
             kNothing};
}

// The layers that torch.nn calls where no gradients are recorded.
void encoder_layer(const NodeArgs& args, Guards&, Results& results) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() == 3, "an encoder layer needs three dimensions");
  results = {contiguous_like(x, x.sizes)};
}

constexpr OpRow on_cuda(const char* names, ShapeRule shape) {
  return {.names = names, .shape = shape, .flags = kRandom, .role = Role::Attention};
}

constexpr OpRow kAttentionRows[] = {
    on_cuda("aten::_scaled_dot_product_flash_attention", flash_cuda),
    on_cuda("aten::_scaled_dot_product_efficient_attention", efficient_cuda),
    on_cuda("aten::_scaled_dot_product_cudnn_attention", cudnn),
    call("aten::_scaled_dot_product_flash_attention_for_cpu", flash),
    call("aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_backward),
    call("aten::_transformer_encoder_layer_fwd", encoder_layer),
};

}  // namespace

std::span<const OpRow> attention_rows() { return kAttentionRows; }

}  // namespace vesta::graph
