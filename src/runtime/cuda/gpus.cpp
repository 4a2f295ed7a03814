#include "runtime/cuda/gpus.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "machine/cuda/device_target.h"
#include "machine/cuda/shared_library.h"

namespace vesta::runtime {
namespace {

constexpr const char* kTorch = "libtorch_cuda.so";

void note(Device d, std::set<int>& gpus) {
  if (d.type == DeviceType::CUDA) gpus.insert(std::max<int>(0, d.index));
}

void note(const artifact::Artifact& a, std::set<int>& gpus) {
  note(a.device, gpus);
  for (const artifact::InputDesc& i : a.inputs) note(i.type.device, gpus);
  for (const artifact::Buffer& b : a.buffers) note(b.type.device, gpus);
  for (const artifact::Artifact& entry : a.entries) note(entry, gpus);
}

// PyTorch's part for GPUs registers itself when it is loaded. A program that links libtorch_cuda has it, and Python has
// it; any other process finds it beside PyTorch's other libraries.
bool has_cuda() {
  if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return true;
  const std::filesystem::path folder = machine::torch_folder();
  return !folder.empty() && dlopen((folder / kTorch).c_str(), RTLD_NOW | RTLD_LOCAL) &&
         c10::impl::hasDeviceGuardImpl(c10::kCUDA);
}

}  // namespace

void need_gpus(const program::Program& program) {
  std::set<int> gpus;
  for (const program::Weight& w : program.weights) note(w.device, gpus);
  for (const program::Variant& v : program.variants) note(v.artifact, gpus);
  if (gpus.empty()) return;
  const std::string needed = to_string(Device{DeviceType::CUDA, static_cast<int8_t>(*gpus.rbegin())});
  VESTA_USER_CHECK(
      has_cuda(),
      "it was saved for {}, but PyTorch has no CUDA here; load it with a CUDA build of PyTorch, or save the "
      "program with its tensors on the CPU",
      needed);
  std::string why;
  VESTA_USER_CHECK(machine::cuda_target(0, &why),
                   "it was saved for {}, but there is no GPU here ({}); load it on a machine with a GPU, or save the "
                   "program with its tensors on the CPU",
                   needed, why);
  const int count = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
  VESTA_USER_CHECK(
      *gpus.rbegin() < count,
      "it was saved for {}, but this process sees {} GPU{}; make more visible (CUDA_VISIBLE_DEVICES), or save "
      "the program with its tensors on cuda:0",
      needed, count, count == 1 ? "" : "s");
}

}  // namespace vesta::runtime
