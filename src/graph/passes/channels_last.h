// Runs chains of convolutions in channels-last, the order that oneDNN computes in, and cuDNN on the tensor cores of a
// GPU (there for half types, and only if no convolution has groups). Values inside a chain change their strides; copies
// stand at its edges only. Graph outputs keep eager's strides. On a GPU constant weights are laid out once, within
// Options::packed_weights; the others are copied in each call, as cuDNN does in eager.
//
// Measured on a CPU (float32, two cores): a 1x1 convolution takes 0.29 ms instead of 0.49, a depthwise 5x5 one 0.07
// instead of 0.14, a 3x3 one about the same, a bfloat16 one half. Below three convolutions the copies at the edges cost
// as much as the chain gains.
#pragma once

#include "graph/passes/pass.h"

namespace vesta::graph {
bool use_channels_last(Graph& graph, const PassContext& context);
}
