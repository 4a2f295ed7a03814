// Parts of one dimension.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

struct SliceRange {
  Expr start, length, step;
};
// Reads start, end and step as Python does.
SliceRange slice_range(Guards& g, const NodeArgs& args, Expr size);

}  // namespace vesta::graph
