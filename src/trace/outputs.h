// What a traced program's results are: new tensors, inputs, or views of inputs and of each other.
#pragma once

#include <ATen/core/ivalue.h>

namespace vesta::trace {

class Recorder;

// Fills the graph's outputs and mutations. Throws Unsupported for results whose aliasing a graph cannot say.
void finish_outputs(Recorder& r, const std::vector<c10::IValue>& results);

}  // namespace vesta::trace
