// Convolution: calls into ATen or oneDNN. The result is channels-last if the input or the weight is.
#include "graph/ops/rows.h"
#include "graph/rules/norm_forms.h"
#include "graph/rules/window.h"

namespace vesta::graph {
namespace {

// conv1d runs as a 2-d convolution of height 1.
TensorType with_height(const TensorType& t) {
  TensorType out = t;
  out.sizes.insert(out.sizes.begin() + 2, 1);
  out.strides.insert(out.strides.begin() + 2, t.sizes[2] * t.strides[2]);
  return out;
}
MemoryFormat format_of(Guards& g, const TensorType& x, const TensorType& w) {
  const bool line = x.dim() == 3;
  // ATen makes the input of conv1d contiguous first.
  const bool permuted = line && !is_contiguous(g, x);
  const MemoryFormat a = suggest_memory_format(g, permuted ? with_height(contiguous_like(x, x.sizes))
                                                  : line   ? with_height(x)
                                                           : x);
  const MemoryFormat c = suggest_memory_format(g, line ? with_height(w) : w);
  return a != MemoryFormat::Contiguous ? a : c;
}
TensorType laid_out(const TensorType& x, Sizes sizes, MemoryFormat format) {
  if (sizes.size() != 3 || format == MemoryFormat::Contiguous) return in_format(x, sizes, format);
  Sizes high = sizes;
  high.insert(high.begin() + 2, 1);
  TensorType out = in_format(x, high, format);
  out.sizes.erase(out.sizes.begin() + 2);
  out.strides.erase(out.strides.begin() + 2);
  return out;
}

void convolution(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(0);
  const TensorType& w = args.tensor(1);
  VESTA_USER_CHECK(x.dim() >= 3 && x.dim() <= 5 && w.dim() == x.dim(), "convolution: wrong number of dimensions");
  VESTA_USER_CHECK(x.dtype == w.dtype, "convolution: the operands have different types");
  const size_t n = x.dim() - 2;
  const IntList stride = spatial(args, "stride", n), padding = spatial(args, "padding", n),
                dilation = spatial(args, "dilation", n), extra = spatial(args, "output_padding", n, {0});
  const Expr groups = args.integer("groups");
  const bool transposed = args.boolean("transposed");
  const Expr expected = transposed ? w.sizes[0] : w.sizes[1] * groups;
  VESTA_USER_CHECK(g.equal(x.sizes[1], expected), "convolution: the channels do not fit");
  Sizes sizes = {x.sizes[0], transposed ? w.sizes[1] * groups : w.sizes[0]};
  for (size_t i = 0; i < n; ++i) {
    const Expr size = x.sizes[i + 2], kernel = w.sizes[i + 2];
    if (transposed) {
      sizes.push_back((size - 1) * stride[i] - padding[i] * 2 + dilation[i] * (kernel - 1) + extra[i] + 1);
      VESTA_USER_CHECK(!g.less(sizes.back(), 1), "convolution: the result would be empty");
    } else {
      sizes.push_back(window_count(g, size, kernel, stride[i], padding[i], dilation[i], false));
    }
  }
  if (args.has("bias")) {
    const TensorType& bias = args.tensor("bias");
    VESTA_USER_CHECK(bias.dim() == 1 && g.equal(bias.sizes[0], sizes[1]) && bias.dtype == x.dtype,
                     "convolution: the bias does not fit");
  }
  results = {laid_out(x, sizes, format_of(g, x, w))};
}

void convolution_backward(const NodeArgs& args, Guards& g, Results& results) {
  const TensorType& x = args.tensor(1);
  const TensorType& w = args.tensor(2);
  const MemoryFormat format = format_of(g, x, w);
  results = only_asked(args, {laid_out(x, x.sizes, format), laid_out(w, w.sizes, format),
                              contiguous_like(w, {args.tensor(0).sizes[1]})});
}

constexpr OpRow kConvolutionRows[] = {
    call("aten::convolution", convolution),
    call("aten::convolution_backward", convolution_backward),
};

}  // namespace

std::span<const OpRow> convolution_rows() { return kConvolutionRows; }

}  // namespace vesta::graph
