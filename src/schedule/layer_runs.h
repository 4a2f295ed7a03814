// Where the steps of a plan repeat with the layers of its graph.
#pragma once

#include <optional>
#include <vector>

#include "graph/layers.h"
#include "schedule/plan.h"

namespace vesta::schedule {

using graph::ChainPlace;

// Places by index in the graph with fewer layers.
std::vector<ChainPlace> places_in(const graph::Kept& kept, int dropped);

// The steps [begin, end). Each of them does the same as the step a period later, with the buffers of the next layer;
// the steps of the last period have none.
struct LayerRun {
  int begin = 0, end = 0, period = 0;
  int last_period() const { return end - period; }
};

struct BufferChain {
  std::vector<int> members;  // in the order of the layers
  int last = -1;             // index of the member that the last period of a run writes
};

struct LayerRuns {
  LayerRun prepacked, steps;  // a period of 0: no step of this list depends on a layer
  std::vector<BufferChain> chains;
  std::vector<ChainPlace> places;  // by buffer; inputs of the graph are in no chain
};

// Returns none if the steps do not repeat with the layers. Ignores the CopySteps at the end of the plan.
std::optional<LayerRuns> find_runs(const Plan& few, const graph::Layers& layers);

}  // namespace vesta::schedule
