// What a traced program's results are: new tensors, inputs, or views of inputs and of each other.
#pragma once

#include <ATen/core/ivalue.h>

#include "trace/tensors/view_relation.h"

namespace vesta::trace {

class Recorder;

// Fills the graph's outputs and mutations. Throws Unsupported for results whose aliasing a graph cannot say.
void finish_outputs(Recorder& r, const std::vector<c10::IValue>& results);

// To be called after it: what apply() makes of the results of a run. Where eager's base is no result and no input, a
// result that shares another's memory is no view.
std::vector<ViewRelation> view_relations(Recorder& r, const std::vector<c10::IValue>& results);

}  // namespace vesta::trace
