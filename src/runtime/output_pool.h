// Memory for tensors handed to the caller. A large block that the caller has let go is kept for the next output of its
// size, because the operating system's page faults on fresh memory cost more than most kernels that fill it.
//
// At most kKeptBytes of free memory are kept in the process; small tensors come from PyTorch's CPU allocator. A tensor
// is the caller's alone while it lives: its block is reused only after its storage has died. Thread-safe.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>

namespace vesta::runtime {

c10::Allocator& output_allocator();

// Gives the free blocks back to the system; returns their bytes.
int64_t release_output_memory();

}  // namespace vesta::runtime
