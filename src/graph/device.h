// Finds the device that a graph is compiled for.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

// The device of the first value that is on a device of this type. Inputs are looked at before nodes. nullopt: no value
// is on one.
std::optional<Device> first_device(const Graph& graph, DeviceType type);

}  // namespace vesta::graph
