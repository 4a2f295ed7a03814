// A part of a graph as a graph of its own, to run and to compile it alone.
#pragma once

#include <set>

#include "graph/graph.h"

namespace vesta::graph {

struct Part {
  std::unique_ptr<Graph> graph;
  std::vector<uint32_t> inputs;   // per input of the part, the value of the whole graph that it stands for
  std::vector<uint32_t> outputs;  // per output of the part
};

// The nodes that have a result among `values`, and those between them, for the hints of the sizes: the part has no
// symbols. Its inputs are what these nodes read of others, its outputs what others read of them.
Part part_of(const Graph& whole, const std::set<uint32_t>& values);

}  // namespace vesta::graph
