#include "guarded_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace vesta::files {
namespace {

constexpr size_t kPage = 4096, kAlignment = 64, kMost = size_t{256} << 20;

std::mutex mutex;
std::map<void*, std::pair<void*, size_t>> blocks;  // by what a tensor sees: the pages and their bytes

void release(void* memory) {
  const std::lock_guard lock(mutex);
  const auto at = blocks.find(memory);
  if (at == blocks.end()) return;  // no bytes
  munmap(at->second.first, at->second.second);
  blocks.erase(at);
}

class Guarded final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    TORCH_CHECK(bytes <= kMost, "not enough memory: ", bytes, " bytes");
    if (bytes == 0) return {nullptr, nullptr, [](void*) {}, c10::Device(c10::kCPU)};
    const size_t used = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t all = (used + kPage - 1) / kPage * kPage + kPage;
    void* pages = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(pages != MAP_FAILED, "not enough memory: ", bytes, " bytes");
    auto* begin = static_cast<char*>(pages);
    mprotect(begin + all - kPage, kPage, PROT_NONE);
    char* memory = begin + all - kPage - used;
    const std::lock_guard lock(mutex);
    blocks[memory] = {pages, all};
    return {memory, memory, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

}  // namespace

void guard_tensors() {
  static Guarded guarded;
  c10::SetCPUAllocator(&guarded, /*priority=*/100);
}

}  // namespace vesta::files
