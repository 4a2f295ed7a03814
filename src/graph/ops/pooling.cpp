// Pooling, and the depthwise convolution, a weighted sum over the same windows. 4-d inputs keep their memory format.
#include "graph/ops/rows.h"
#include "graph/rules/window.h"

namespace vesta::graph {
namespace {

TensorType pooled(Guards& g, const TensorType& x, size_t n, const IntList& counts) {
  VESTA_USER_CHECK(x.dim() == n + 1 || x.dim() == n + 2, "pooling: wrong number of dimensions");
  VESTA_USER_CHECK(x.dtype != DType::Bool, "pooling is not implemented for {}", name(x.dtype));
  for (size_t i = x.dim() - n - 1; n == 3 && i < x.dim(); ++i) {
    VESTA_USER_CHECK(!g.equal(x.sizes[i], 0), "pooling: a dimension is empty");
  }
  Sizes sizes(x.sizes.begin(), x.sizes.end() - static_cast<int64_t>(n));
  sizes.insert(sizes.end(), counts.begin(), counts.end());
  const MemoryFormat format = n == 1 || x.dim() != n + 2 ? MemoryFormat::Contiguous : suggest_memory_format(g, x);
  return in_format(x, sizes, format);
}

template <size_t N>
IntList windows(const NodeArgs& args, Guards& g) {
  const TensorType& x = args.tensor(0);
  VESTA_USER_CHECK(x.dim() >= N + 1, "pooling: too few dimensions");
  const IntList kernel = spatial(args, "kernel_size", N), stride = spatial(args, "stride", N, kernel),
                padding = spatial(args, "padding", N);
  const IntList dilation = args.schema().index_of("dilation") >= 0 ? spatial(args, "dilation", N) : IntList(N, Expr(1));
  const bool batched = x.dim() == N + 2;
  VESTA_USER_CHECK(!is_empty(g, std::span(x.sizes).subspan(batched ? 1 : 0)),
                   "pooling: only the batch dimension may be empty");
  IntList counts;
  for (size_t i = 0; i < N; ++i) {
    VESTA_USER_CHECK(!g.less(kernel[i], padding[i] * 2), "pooling: the padding is more than half the window");
    counts.push_back(window_count(g, x.sizes[x.dim() - N + i], kernel[i], stride[i], padding[i], dilation[i],
                                  args.boolean("ceil_mode")));
  }
  return counts;
}

template <size_t N>
void average(const NodeArgs& args, Guards& g, Results& results) {
  VESTA_USER_CHECK(!args.has("divisor_override") || !args.integer("divisor_override").is_constant(0),
                   "pooling: the divisor is zero");
  results = {pooled(g, args.tensor(0), N, windows<N>(args, g))};
}
template <size_t N>
void maximum(const NodeArgs& args, Guards& g, Results& results) {
  average<N>(args, g, results);
  // The 3-d kernel adds a batch dimension and keeps the memory format of that.
  if (const TensorType& x = args.tensor(0); N == 3 && x.dim() == 4) {
    TensorType batch = x;
    batch.sizes.insert(batch.sizes.begin(), 1);
    batch.strides.insert(batch.strides.begin(), x.sizes[0] * x.strides[0]);
    Sizes sizes = results[0].sizes;
    sizes.insert(sizes.begin(), 1);
    const bool last = is_contiguous(g, batch, MemoryFormat::ChannelsLast3d);
    const TensorType out = in_format(x, sizes, last ? MemoryFormat::ChannelsLast3d : MemoryFormat::Contiguous);
    results[0].strides.assign(out.strides.begin() + 1, out.strides.end());
  }
  results.push_back(results[0]);
  results[1].dtype = DType::I64;
}
template <size_t N>
void adaptive(const NodeArgs& args, Guards& g, Results& results) {
  results = {pooled(g, args.tensor(0), N, spatial(args, "output_size", N))};
}
template <size_t N>
void adaptive_maximum(const NodeArgs& args, Guards& g, Results& results) {
  adaptive<N>(args, g, results);
  for (Expr size : results[0].sizes)
    VESTA_USER_CHECK(!g.less(size, 0), "adaptive pooling needs sizes that are not negative");
  results.push_back(results[0]);
  results[1].dtype = DType::I64;
}
void depthwise_convolution(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType &x = args.tensor(0), &taps = args.tensor(1);
  const IntList &kernel = args.integers("kernel_size"), &stride = args.integers("stride"),
                &padding = args.integers("padding"), &dilation = args.integers("dilation");
  VESTA_USER_CHECK(x.dim() == 4 && taps.dim() == 3 && g.equal(taps.sizes[2], x.sizes[1]),
                   "depthwise_convolution: the taps do not fit");
  IntList counts;
  for (size_t i = 0; i < 2; ++i) {
    VESTA_USER_CHECK(g.equal(taps.sizes[i], kernel[i]), "depthwise_convolution: the taps do not fit");
    counts.push_back(window_count(g, x.sizes[2 + i], kernel[i], stride[i], padding[i], dilation[i], false));
  }
  results = {pooled(g, x, 2, counts)};
  results[0].dtype = args.dtype("dtype", x.dtype);
}
// Gradients have the input's shape.
void gradient(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor("self");
  const MemoryFormat format = x.dim() == 4 ? suggest_memory_format(g, x) : MemoryFormat::Contiguous;
  results = {in_format(x, x.sizes, format)};
}

constexpr OpRow kPoolingRows[] = {
    indexed("aten::avg_pool2d", average<2>, 0, LayoutRule::Follows),
    indexed("aten::avg_pool3d", average<3>),
    indexed("aten::max_pool2d_with_indices", maximum<2>, 0, LayoutRule::Follows),
    indexed("aten::max_pool3d_with_indices", maximum<3>),
    indexed("aten::_adaptive_avg_pool2d", adaptive<2>, 0, LayoutRule::Follows),
    indexed("aten::_adaptive_avg_pool3d", adaptive<3>),
    indexed("aten::adaptive_max_pool2d", adaptive_maximum<2>, 0, LayoutRule::Follows),
    indexed("aten::adaptive_max_pool3d", adaptive_maximum<3>),
    indexed("vesta::depthwise_convolution", depthwise_convolution, 0, LayoutRule::Follows),
    indexed("aten::max_pool2d_with_indices_backward", gradient, 0, LayoutRule::Follows),
    call("aten::avg_pool2d_backward aten::_adaptive_avg_pool2d_backward aten::adaptive_max_pool2d_backward", gradient,
         0, LayoutRule::Follows),
};

}  // namespace

std::span<const OpRow> pooling_rows() { return kPoolingRows; }

}  // namespace vesta::graph
