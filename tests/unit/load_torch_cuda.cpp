// torch_cuda() in processes that have torch's CUDA library loaded or not. Each test needs a process of its own.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {
namespace {

class Source final : public AllocationSource {
 public:
  void* take(size_t bytes) override {
    sizes.push_back(bytes);
    return std::malloc(bytes);
  }
  void give_back(void* block) noexcept override {
    ++given_back;
    std::free(block);
  }
  std::vector<size_t> sizes;
  int given_back = 0;
};

TEST(LoadTorchCuda, WithoutTorchsLibrary) {
  std::string why;
  EXPECT_EQ(torch_cuda(&why), nullptr);
  EXPECT_NE(why.find("libc10_cuda.so is not loaded"), std::string::npos) << why;
}

// One that has none of the functions which ours calls.
TEST(LoadTorchCuda, WithAnotherLibrary) {
  ASSERT_TRUE(dlopen(VESTA_EMPTY_C10_CUDA, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
  std::string why;
  EXPECT_EQ(torch_cuda(&why), nullptr);
  EXPECT_NE(why.find("undefined symbol"), std::string::npos) << why;
  std::string again;
  EXPECT_EQ(torch_cuda(&again), nullptr);
  EXPECT_EQ(again, why);
}

TEST(LoadTorchCuda, WithTorchsLibrary) {
  void* const library = dlopen(VESTA_FAKE_C10_CUDA, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_TRUE(library) << dlerror();
  const auto raw_alloc = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "vesta_fake_raw_alloc"));
  const auto raw_delete = reinterpret_cast<void (*)(void*)>(dlsym(library, "vesta_fake_raw_delete"));
  ASSERT_TRUE(raw_alloc && raw_delete);

  std::string why = "none";
  const TorchCuda* const torch = torch_cuda(&why);
  ASSERT_TRUE(torch) << why;
  EXPECT_EQ(why, "none");
  EXPECT_EQ(torch_cuda(), torch);
  const auto source = std::make_shared<Source>();
  void* block = nullptr;
  {
    const ServedBy served(source);
    block = raw_alloc(24);
  }
  EXPECT_EQ(source->sizes, std::vector<size_t>{24});
  raw_delete(block);
  EXPECT_EQ(source->given_back, 1);
  raw_delete(raw_alloc(8));
  EXPECT_EQ(source->sizes.size(), 1U);
  EXPECT_EQ(torch->serve(nullptr), nullptr);
}

}  // namespace
}  // namespace vesta::runtime
