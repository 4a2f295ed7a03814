// An allocator in front of PyTorch's: it serves threads that have a source and forwards all other requests.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {

// From now on `source` serves the calling thread. Returns the source before. The first call with a source installs the
// allocator for the whole process. If another allocator was installed since, a call with a source puts one of ours in
// front of it as well.
std::shared_ptr<AllocationSource> serve_thread(std::shared_ptr<AllocationSource> source);

// Memory of PyTorch's allocator for work on `stream`, even if the calling thread has a source. Throws
// c10::OutOfMemoryError.
void* allocate_unserved(size_t bytes, cudaStream_t stream);
// Frees a block of allocate_unserved(). PyTorch's current allocator frees it as it frees its own blocks.
void free_unserved(void* block);

}  // namespace vesta::runtime
