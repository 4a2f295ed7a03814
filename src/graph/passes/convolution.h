// Reads an aten::convolution that the library's fused operator can stand for.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace vesta::graph {

struct Convolution {
  Value* x = nullptr;
  Value* w = nullptr;
  Value* bias = nullptr;  // may be absent
  IntList stride, padding, dilation;
  int64_t groups = 1;
};
// A 2-D convolution on the CPU in float32 or bfloat16, not transposed, of no empty dimension.
std::optional<Convolution> as_convolution(const Node& n);

// "Channels-last" strides: of a 4-D tensor whose channels are adjacent in memory.
std::vector<Expr> channels_last_strides(const std::vector<Expr>& sizes);

}  // namespace vesta::graph
