// Bounds checks at run time: what verify() checks where sizes are constants, for an artifact whose sizes are known only
// now.
#pragma once

#include "runtime/resolve.h"

namespace vesta::runtime {

// Throws InternalError where a buffer is too small for its contents, a view leaves its buffer, or a launch has a
// negative size. `arena_bytes`: by buffer; empty if they were checked when the run began.
void require_bounds(const artifact::Artifact& artifact, const Resolved& resolved, std::span<const int64_t> arena_bytes);

}  // namespace vesta::runtime
