#include "graph/device.h"

namespace vesta::graph {

std::optional<Device> first_device(const Graph& graph, DeviceType type) {
  for (const Input& i : graph.inputs)
    if (i.value->type.device.type == type) return i.value->type.device;
  std::optional<Device> found;
  graph.for_each_node([&](const Node* node) {
    for (const Value* v : node->results)
      if (!found && v && v->type.device.type == type) found = v->type.device;
  });
  return found;
}

}  // namespace vesta::graph
