// The results of a traced program: new tensors, inputs, or views of inputs and of each other.
#pragma once

#include <ATen/core/ivalue.h>

#include "trace/tensors/view_relation.h"

namespace vesta::trace {

class Recorder;

// Fills the graph's outputs and mutations. Throws Unsupported for results whose aliasing a graph cannot express.
void finish_outputs(Recorder& r, const std::vector<c10::IValue>& results);

// The argument for apply() with the results of a run. Call it after finish_outputs(). Where eager's base is neither a
// result nor an input, a result that shares another's memory is not a view.
std::vector<ViewRelation> view_relations(Recorder& r, const std::vector<c10::IValue>& results);

}  // namespace vesta::trace
