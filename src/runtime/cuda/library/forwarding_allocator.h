// An allocator in front of PyTorch's: it serves threads that have a source, and passes on everything else.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {

// PyTorch's allocator, behind ours if that is installed.
c10::cuda::CUDACachingAllocator::CUDAAllocator* torch_allocator();

// The calling thread's source from now on; returns the one before. Installs the allocator when a source is given first,
// and again where somebody has put another in its place.
std::shared_ptr<AllocationSource> serve_thread(std::shared_ptr<AllocationSource> source);

}  // namespace vesta::runtime
