// libvesta_cuda: implements the interface that torch_cuda() returns.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <utility>

#include "runtime/cuda/library/forwarding_allocator.h"

namespace vesta::runtime {
namespace {

// Functions of ATen's CUDA library. Its header needs those of cuBLAS, cuSPARSE and cuSOLVER, so the functions are found
// by name. From torch 2.13 on the first one takes an argument.
class Blas {
 public:
  Blas() {
    void* const library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    if (!library) return;
    find(handle_, library, "_ZN2at4cuda24getCurrentCUDABlasHandleEv");
    find(handle_and_setup_, library, "_ZN2at4cuda24getCurrentCUDABlasHandleEb");
    find(lt_workspace_, library, "_ZN2at4cuda22getCUDABlasLtWorkspaceEv");
  }
  void make_workspaces() const {
    TORCH_CHECK((handle_ || handle_and_setup_) && lt_workspace_,
                "this PyTorch has no at::cuda::getCurrentCUDABlasHandle");
    handle_ ? handle_() : handle_and_setup_(true);
    lt_workspace_();
  }

 private:
  template <class F>
  static void find(F*& function, void* library, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
  }
  void* (*handle_)() = nullptr;
  void* (*handle_and_setup_)(bool) = nullptr;
  void* (*lt_workspace_)() = nullptr;
};

class Library final : public TorchCuda {
 public:
  std::shared_ptr<AllocationSource> serve(std::shared_ptr<AllocationSource> source) const override {
    return serve_thread(std::move(source));
  }
  c10::Allocator* allocator() const override { return c10::cuda::CUDACachingAllocator::get(); }
  void* allocate(size_t bytes, void* stream) const override {
    return allocate_unserved(bytes, static_cast<cudaStream_t>(stream));
  }
  void free(void* block) const override { free_unserved(block); }
  void make_workspaces() const override {
    static const Blas blas;
    blas.make_workspaces();
  }
  void clear_error() const override { static_cast<void>(cudaGetLastError()); }
  c10::Stream stream(void* native, c10::DeviceIndex device) const override {
    return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(native), device).unwrap();
  }
};

}  // namespace
}  // namespace vesta::runtime

extern "C" __attribute__((visibility("default"))) const vesta::runtime::TorchCuda* vesta_torch_cuda() {
  static const auto* const library = new vesta::runtime::Library;  // programs may run while the process ends
  return library;
}
