// Memory for tensors that go to the caller. A large block that the caller has freed is kept for the next output of its
// size, because page faults on fresh memory cost more than most kernels that fill it.
//
// At most kKeptBytes of free memory are kept in the process; small tensors come from PyTorch's CPU allocator. A block
// is reused only after the storage of its tensor has died. Thread-safe.
#pragma once

#include <c10/core/Allocator.h>

namespace vesta::runtime {

c10::Allocator& output_allocator();

}  // namespace vesta::runtime
