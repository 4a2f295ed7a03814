// Memory for tensors that go to the caller. A large block that the caller has freed is kept for the next output of its
// size (free_blocks.h), because page faults on fresh memory cost more than most kernels that fill it. The
// operating system may take the pages of kept blocks beyond 256 MiB where memory is short.
//
// Small tensors come from PyTorch's CPU allocator. A block is reused only after the storage of its tensor has died.
// Thread-safe.
#pragma once

#include <c10/core/Allocator.h>

namespace vesta::runtime {

c10::Allocator& output_allocator();

}  // namespace vesta::runtime
