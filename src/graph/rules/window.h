// Sizes of sliding windows, for convolution and pooling.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// A list argument of 1 or `dims` entries. An empty list gives `otherwise`.
IntList spatial(const NodeArgs& args, std::string_view name, size_t dims, const IntList& otherwise = {});

// The number of windows over `size` elements. With `ceil_mode`, a last partial window counts if it starts inside the
// padded input.
Expr window_count(Guards& g, Expr size, Expr kernel, Expr stride, Expr padding, Expr dilation, bool ceil_mode);

}  // namespace vesta::graph
