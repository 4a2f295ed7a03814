#include "fake_c10_cuda.h"

#include <c10/cuda/CUDAFunctions.h>
#include <torch/version.h>

// NOLINTBEGIN(readability-identifier-naming): torch's names
namespace c10::cuda {

DeviceIndex current_device() { return vesta::testing::current_device; }

// Torch's own has the same bits: a stream that torch did not make is represented by its address.
CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex device) {
  return CUDAStream(Stream(Stream::UNSAFE, Device(kCUDA, device), reinterpret_cast<StreamId>(stream)));
}

#if TORCH_VERSION_MINOR >= 14
CUDAErrorLogCapture::CUDAErrorLogCapture() noexcept = default;
void c10_cuda_check_implementation(int32_t error, const char*, const char*, uint32_t, bool, CUDAErrorLogCapture*) {
#else
void c10_cuda_check_implementation(int32_t error, const char*, const char*, uint32_t, bool) {
#endif
  TORCH_CHECK(error == 0, "CUDA error ", error);
}

namespace CUDACachingAllocator {
static vesta::testing::FakeAllocator first;
std::atomic<CUDAAllocator*> allocator{&first};
}  // namespace CUDACachingAllocator

}  // namespace c10::cuda
// NOLINTEND(readability-identifier-naming)

extern "C" {

cudaError_t cudaGetLastError() {
  ++vesta::testing::errors_forgotten;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t*, size_t*) { return cudaErrorNotSupported; }

// For a program that has this library loaded, not linked.
void* vesta_fake_raw_alloc(size_t bytes) { return c10::cuda::CUDACachingAllocator::raw_alloc(bytes); }
void vesta_fake_raw_delete(void* block) { c10::cuda::CUDACachingAllocator::raw_delete(block); }
}
