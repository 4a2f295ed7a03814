// The CPU's choices that need a kernel's instructions: the lanes of its vectors, the loads that are read in squares and
// transposed, and what is prefetched.
#pragma once

#include "schedule/stage.h"

namespace vesta::schedule {

// For a processor whose widest vector has this many bytes.
void choose_vectors(loops::Kernel& kernel, int64_t vector_bytes);
// Lets buffers of the kernel that are only written bypass the caches, where their alignment allows.
void stream_results(Staged& staged, const loops::Dag& dag);

}  // namespace vesta::schedule
