// An allocator in front of PyTorch's: it serves the threads that have a source and passes everything else on.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {

// From now on `source` serves the calling thread; returns the source before. The first call with a source installs the
// allocator for the whole process. Where somebody has stored another allocator since, a call with a source puts one of
// ours in front of that as well.
std::shared_ptr<AllocationSource> serve_thread(std::shared_ptr<AllocationSource> source);

// Of PyTorch's allocator for work on `stream`, even if the calling thread has a source. Throws c10::OutOfMemoryError.
void* allocate_unserved(size_t bytes, cudaStream_t stream);
// A block of allocate_unserved(). The allocator that PyTorch has now takes it, as it takes PyTorch's own blocks.
void free_unserved(void* block);

}  // namespace vesta::runtime
