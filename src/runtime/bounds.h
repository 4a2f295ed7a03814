// What verify() compares where sizes are constants, of an artifact whose sizes are known now.
#pragma once

#include "runtime/resolve.h"

namespace vesta::runtime {

// Throws InternalError where a buffer is too small for what it holds, a view leaves its buffer, or a launch has a
// negative size. `arena_bytes`: by buffer; empty where they were compared when the run began.
void require_bounds(const artifact::Artifact& artifact, const Resolved& resolved, std::span<const int64_t> arena_bytes);

}  // namespace vesta::runtime
