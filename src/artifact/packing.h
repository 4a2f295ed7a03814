// How an artifact makes its prepacked constants, in parts that programs can share.
#pragma once

#include <string>
#include <vector>

#include "artifact/artifact.h"

namespace vesta::artifact {

// Prepacked steps that depend on each other, and on no other step: a weight's packed form, or a convolution's weight
// and bias with a batch norm folded into them.
struct Packing {
  std::vector<int> steps;       // in Artifact::prepacked, in order
  std::vector<int> parameters;  // inputs that the steps read, in the order in which they read them
  std::vector<int> kept;        // the buffers that runs read, in the order in which the steps make them
  // Equal names: the same steps with the same kernels, so that equal parameters give equal constants in `kept`. Empty:
  // a size depends on a symbol, and no other packing is known to be the same.
  std::string name;
};

// Every prepacked step is in one of the packings.
std::vector<Packing> packings_of(const Artifact& a);

// By buffer: whether a step of a run or an output reads it. Prepacked buffers that only prepacked steps read are
// dropped.
std::vector<bool> read_by_runs(const Artifact& a);

}  // namespace vesta::artifact
