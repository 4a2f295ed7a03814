// Which devices a graph's values are on.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace vesta::graph {

// The device of the first value, inputs before nodes, that is on a device of this type; nullopt: there is none.
std::optional<Device> first_device(const Graph& graph, DeviceType type);

}  // namespace vesta::graph
