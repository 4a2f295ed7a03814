// Tests which allocator serves which thread, and for how long (src/runtime/cuda/library).
#include <thread>

#include "torch_cuda_sample.h"

namespace vesta::testing {
namespace {

class TorchCudaServing : public TorchCudaTest {};

TEST_F(TorchCudaServing, TheSourceServesTheCallingThread) {
  EXPECT_EQ(serve_thread(source_), nullptr);
  current_device = 3;
  DataPtr first = allocator().allocate(100);
  current_device = 0;
  DataPtr second = allocator().allocate(200);
  void* const blocks[] = {first.get(), second.get()};
  EXPECT_EQ(source_->taken(), std::vector<void*>(blocks, blocks + 2));
  EXPECT_EQ(first.device(), Device(kCUDA, 3));
  EXPECT_EQ(second.device(), Device(kCUDA, 0));
  second.clear();
  EXPECT_EQ(source_->given_back(), std::vector<void*>{blocks[1]});
  first.clear();
  EXPECT_EQ(source_->given_back(), (std::vector<void*>{blocks[1], blocks[0]}));
  EXPECT_EQ(torch_.calls(), Calls{});
}

TEST_F(TorchCudaServing, BlocksOfTorchKeepItsDeleter) {
  serve_thread(source_);
  EXPECT_EQ(allocator().raw_deleter(), torch_.raw_deleter());
  const DataPtr ours = allocator().allocate(8);
  serve_thread(nullptr);
  const DataPtr torchs = allocator().allocate(8);
  EXPECT_EQ(torchs.get_deleter(), torch_.raw_deleter());
  EXPECT_NE(ours.get_deleter(), torch_.raw_deleter());
}

TEST_F(TorchCudaServing, BlocksKeepTheirSourceAlive) {
  serve_thread(source_);
  DataPtr block = allocator().allocate(64);
  EXPECT_EQ(serve_thread(nullptr), source_);
  const std::weak_ptr<Source> source = std::exchange(source_, nullptr);
  ASSERT_FALSE(source.expired());
  std::thread([&source, block = std::move(block)]() mutable {
    const void* const address = block.get();
    const std::shared_ptr<Source> alive = source.lock();
    block.clear();
    EXPECT_EQ(alive->given_back().at(0), address);
  }).join();
  EXPECT_TRUE(source.expired());
}

TEST_F(TorchCudaServing, OtherThreadsAreTorchs) {
  serve_thread(source_);
  std::thread([this] { allocator().allocate(64); }).join();
  EXPECT_EQ(torch_.calls(), Calls{"allocate 64"});
  EXPECT_TRUE(source_->taken().empty());
}

TEST_F(TorchCudaServing, ServingNests) {
  const auto inner = std::make_shared<Source>();
  serve_thread(source_);
  const std::shared_ptr<AllocationSource> before = serve_thread(inner);
  EXPECT_EQ(before, source_);
  allocator().allocate(1);
  EXPECT_EQ(serve_thread(before), inner);
  allocator().allocate(1);
  EXPECT_EQ(inner->taken().size(), 1U);
  EXPECT_EQ(source_->taken().size(), 1U);
  EXPECT_EQ(torch_.calls(), Calls{});
}

TEST_F(TorchCudaServing, NothingIsTorchs) {
  serve_thread(source_);
  EXPECT_EQ(allocator().allocate(0).get(), nullptr);
  EXPECT_EQ(allocator().raw_alloc(0), nullptr);
  EXPECT_EQ(allocator().raw_alloc_with_stream(0, nullptr), nullptr);
  EXPECT_EQ(torch_.calls(), (Calls{"allocate 0", "raw_alloc 0", "raw_alloc_with_stream 0 0x0"}));
  EXPECT_TRUE(source_->taken().empty());
}

TEST_F(TorchCudaServing, WhatASourceThrowsPasses) {
  serve_thread(source_);
  source_->fails = true;
  EXPECT_THROW(allocator().allocate(1), std::runtime_error);
  EXPECT_THROW(allocator().raw_alloc(1), std::runtime_error);
  EXPECT_TRUE(source_->given_back().empty());
  serve_thread(nullptr);
  EXPECT_EQ(source_.use_count(), 1);
}

// Passes on to torch's own allocator, as the log of a first capture does.
class PassingSource final : public AllocationSource {
 public:
  void* take(size_t bytes) override { return runtime::allocate_unserved(bytes, nullptr); }
  void give_back(void* block) noexcept override { runtime::free_unserved(block); }
};

TEST_F(TorchCudaServing, ASourceMayAskTorch) {
  serve_thread(std::make_shared<PassingSource>());
  for (const bool raw : {false, true}) {
    DataPtr block;
    void* raw_block = nullptr;
    if (raw)
      raw_block = allocator().raw_alloc(32);
    else
      block = allocator().allocate(32);
    EXPECT_EQ(torch_.calls(), Calls{"raw_alloc_with_stream 32 0x0"});
    const void* const address = raw ? raw_block : block.get();
    if (raw)
      allocator().raw_delete(raw_block);
    else
      block.clear();
    EXPECT_EQ(torch_.calls(), Calls{fmt::format("raw_delete {}", fmt::ptr(address))});
  }
}

TEST_F(TorchCudaServing, ThreadsMayBeginAtOnce) {
  std::vector<std::thread> threads;
  std::vector<CUDAAllocator*> seen(8);
  for (size_t i = 0; i < seen.size(); ++i)
    threads.emplace_back([&seen, i] {
      const auto source = std::make_shared<Source>();
      serve_thread(source);
      seen[i] = &allocator();
      for (int n = 0; n < 1000; ++n) {
        const DataPtr block = allocator().allocate(16);
        allocator().raw_delete(allocator().raw_alloc(16));
      }
      EXPECT_EQ(source->taken().size(), 2000U);
      EXPECT_EQ(source->given_back().size(), 2000U);
      serve_thread(nullptr);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(seen, std::vector<CUDAAllocator*>(8, &allocator()));
  EXPECT_EQ(torch_.calls(), Calls{});
}

}  // namespace
}  // namespace vesta::testing
