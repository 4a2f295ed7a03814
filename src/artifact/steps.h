// Describes the steps of an artifact for explain(): what each runs, and which earlier steps it depends on.
#pragma once

#include <vector>

#include "artifact/artifact.h"
#include "vesta/capture_report.h"

namespace vesta::artifact {

// The steps of a call in their order, with those of an entry at each place that calls it.
std::vector<StepInfo> steps_of(const Artifact& artifact);

// Bytes of the tensors that a call makes for its caller; -1: they depend on the sizes of the call.
int64_t output_bytes_of(const Artifact& artifact);

}  // namespace vesta::artifact
