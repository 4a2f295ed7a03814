// Reads an aten::convolution on any device.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

struct Convolution {
  Value* x = nullptr;
  Value* w = nullptr;
  Value* bias = nullptr;  // may be absent
  IntList stride, padding, dilation;
  int64_t groups = 1;
};
// A 2-D convolution of real floats of one dtype, not transposed, without empty dimensions.
std::optional<Convolution> as_convolution(const Node& n);

// Its derivative, an aten::convolution_backward.
struct ConvolutionBackward {
  Value* tangent = nullptr;
  Value* x = nullptr;
  Value* w = nullptr;
  IntList stride, padding;
  int64_t groups = 1;
};
std::optional<ConvolutionBackward> as_convolution_backward(const Node& n);

// Whether each element is this constant.
bool all_are(const IntList& list, int64_t n);

// Strides of a 4-D tensor whose channels are adjacent in memory.
std::vector<Expr> channels_last_strides(const std::vector<Expr>& sizes);
// Whether the 4-D tensor has them. Strides of dimensions of size 1 do not count.
bool lies_channels_last(const TensorType& t);

}  // namespace vesta::graph
