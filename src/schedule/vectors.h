// The CPU's choices that need a kernel's instructions: how many lanes its vectors have, which loads are read in squares
// and turned, and what is fetched ahead.
#pragma once

#include "schedule/stage.h"

namespace vesta::schedule {

// For a processor whose widest vector has this many bytes.
void choose_vectors(loops::Kernel& kernel, int64_t vector_bytes);
// Buffers of the kernel that are only written are stored past the caches, where their alignment allows.
void stream_results(Staged& staged, const loops::Dag& dag);

}  // namespace vesta::schedule
