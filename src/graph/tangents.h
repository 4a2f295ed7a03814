// The backward half of a graph for fewer, or for other, tangents than it was made for.
#pragma once

#include <memory>
#include <span>

#include "base/backward.h"
#include "graph/graph.h"

namespace vesta::graph {

// A copy of the backward half, whose last inputs are tangents, one for each state. An expanded tangent has strides of
// 0. An undefined one is not an input, and gradients that depend on no other tangent become outputs of kind None: a
// backward pass is linear in its tangents, so that what depends on undefined ones alone is zero.
std::unique_ptr<Graph> for_tangents(const Graph& backward, std::span<const TangentState> states);

}  // namespace vesta::graph
