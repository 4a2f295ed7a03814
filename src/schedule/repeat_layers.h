// The plan of a model with many layers, from the plan of the same model with fewer.
#pragma once

#include <optional>

#include "graph/layers.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// `few` is the plan of layers.few. Where its steps repeat with the layers, gives the plan of the whole graph: steps of
// one layer are copied for each layer that `few` lacks, with the layer's own inputs, outputs and buffers, and the
// buffers are numbered as make_plan() would number them. None: the steps do not repeat, or what stands before or after
// the layers does not tell which of them it reads.
std::optional<Plan> repeat_layers(const Plan& few, const graph::Graph& whole, const graph::Layers& layers);

}  // namespace vesta::schedule
