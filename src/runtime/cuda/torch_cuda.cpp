#include "runtime/cuda/torch_cuda.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

#include "base/check.h"

namespace vesta::runtime {
namespace {

constexpr const char* kLibrary = "libvesta_cuda.so";
constexpr const char* kTorch = "libc10_cuda.so";

// nullptr for the reason `problem`.
const TorchCuda* find(std::string& problem) {
  if (!dlopen(kTorch, RTLD_NOW | RTLD_NOLOAD)) {
    problem = fmt::format("PyTorch has no CUDA here: {} is not loaded", kTorch);
    return nullptr;
  }
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&find), &here) == 0 || !here.dli_fname) {
    problem = "the folder of Vesta's library is not known";
    return nullptr;
  }
  const std::string path = (std::filesystem::path(here.dli_fname).parent_path() / kLibrary).string();
  // The library is never closed: its allocator stays in PyTorch.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* const error = dlerror();
    problem = error ? error : fmt::format("{} cannot be loaded", path);
    return nullptr;
  }
  using Entry = const TorchCuda* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "vesta_torch_cuda"));
  if (!entry) {
    problem = fmt::format("{} has no vesta_torch_cuda()", path);
    return nullptr;
  }
  return entry();
}

}  // namespace

const TorchCuda* torch_cuda(std::string* why) {
  static std::string problem;
  static const TorchCuda* const found = find(problem);
  if (!found && why) *why = problem;
  return found;
}

ServedBy::ServedBy(std::shared_ptr<AllocationSource> source) {
  const TorchCuda* const torch = torch_cuda();
  VESTA_CHECK(torch && source, "PyTorch's CUDA allocator was not found");
  before_ = torch->serve(std::move(source));
}

ServedBy::~ServedBy() { torch_cuda()->serve(std::move(before_)); }

}  // namespace vesta::runtime
