// Raw blocks, streams, what is passed on, and where the allocator stands (src/runtime/cuda/library).
#include <thread>

#include "torch_cuda_sample.h"

extern "C" const vesta::runtime::TorchCuda* vesta_torch_cuda();

namespace vesta::testing {
namespace {

class TorchCudaForwarding : public TorchCudaTest {};

CUDAStream stream(int64_t id) { return CUDAStream(Stream(Stream::UNSAFE, Device(kCUDA, 0), id)); }

TEST_F(TorchCudaForwarding, RawBlocksGoBackToTheirSource) {
  serve_thread(source_);
  void* const first = allocator().raw_alloc(10);
  void* const second = allocator().raw_alloc_with_stream(20, nullptr);
  serve_thread(nullptr);
  EXPECT_EQ(source_->taken(), (std::vector<void*>{first, second}));
  void* const torchs = allocator().raw_alloc(30);
  EXPECT_EQ(torch_.calls(), Calls{"raw_alloc 30"});

  const std::weak_ptr<Source> source = source_;
  allocator().raw_delete(second);
  EXPECT_EQ(source_->given_back(), std::vector<void*>{second});
  source_ = nullptr;
  EXPECT_FALSE(source.expired());
  std::thread([first] { allocator().raw_delete(first); }).join();
  EXPECT_TRUE(source.expired());
  EXPECT_EQ(torch_.calls(), Calls{});
  allocator().raw_delete(torchs);
  EXPECT_EQ(torch_.calls(), Calls{fmt::format("raw_delete {}", fmt::ptr(torchs))});
}

TEST_F(TorchCudaForwarding, ASourcesBlockMayBeTakenAgain) {
  serve_thread(source_);
  for (int n = 0; n < 100; ++n) allocator().raw_delete(allocator().raw_alloc(64));
  EXPECT_EQ(source_->taken(), source_->given_back());
}

// Its caller would free the block by raw_deleter(), which is torch's.
TEST_F(TorchCudaForwarding, RawAllocateOfASourceThrows) {
  serve_thread(source_);
  EXPECT_THROW(allocator().raw_allocate(16), c10::Error);
  EXPECT_EQ(source_->taken(), source_->given_back());
  serve_thread(nullptr);
  allocator().raw_deallocate(allocator().raw_allocate(16));
  EXPECT_EQ(torch_.calls(), Calls{"allocate 16"});
}

TEST_F(TorchCudaForwarding, RecordStreamOfAServedBlockDoesNothing) {
  const DataPtr torchs = allocator().allocate(8);
  serve_thread(source_);
  const DataPtr ours = allocator().allocate(8);
  torch_.calls();
  allocator().recordStream(ours, stream(5));
  allocator().recordStream(ours, stream(5).unwrap());
  EXPECT_EQ(torch_.calls(), Calls{});
  allocator().recordStream(torchs, stream(5));
  allocator().recordStream(torchs, stream(6).unwrap());
  EXPECT_EQ(torch_.calls(), (Calls{fmt::format("recordStream {} CUDAStream 5", fmt::ptr(&torchs)),
                                   fmt::format("recordStream {} Stream 6", fmt::ptr(&torchs))}));
}

TEST_F(TorchCudaForwarding, EverythingElseIsPassedOn) {
  serve_thread(source_);
  ASSERT_NE(&allocator(), &torch_);
  allocator().emptyCache({1, 2});
  size_t largest = 0;
  allocator().cacheInfo(4, &largest);
  EXPECT_EQ(largest, 7U);
  EXPECT_EQ(allocator().getIpcDevPtr("handle"), torch_.ipc());
  allocator().beginAllocateToPool(1, {0, 9}, [](cudaStream_t s) { return s == nullptr; });
  EXPECT_EQ(torch_.calls(),
            (Calls{"emptyCache 1 2", "cacheInfo 4", "getIpcDevPtr handle", "beginAllocateToPool 1 9 true"}));
  EXPECT_EQ(allocator().name(), "fake");
  EXPECT_THROW(allocator().init(1), std::logic_error);  // from the fake: what it does not have is asked of it too
  EXPECT_THROW(allocator().getMemoryInfo(0), std::logic_error);
}

TEST_F(TorchCudaForwarding, InstalledOnceAndOnlyForASource) {
  serve_thread(nullptr);
  EXPECT_EQ(&allocator(), &torch_);
  serve_thread(source_);
  CUDAAllocator* const ours = &allocator();
  EXPECT_NE(ours, &torch_);
  serve_thread(nullptr);
  serve_thread(source_);
  EXPECT_EQ(&allocator(), ours);
}

TEST_F(TorchCudaForwarding, ANewerAllocatorIsPutBehindAsWell) {
  serve_thread(source_);
  CUDAAllocator* const ours = &allocator();
  DataPtr old = allocator().allocate(8);
  serve_thread(nullptr);

  auto& newer = *new FakeAllocator("newer");
  CUDACachingAllocator::allocator = &newer;
  serve_thread(source_);
  EXPECT_NE(&allocator(), &newer);
  EXPECT_EQ(allocator().name(), "newer");
  const DataPtr block = allocator().allocate(8);
  EXPECT_EQ(source_->taken().size(), 2U);
  old.clear();
  EXPECT_EQ(source_->given_back().size(), 1U);
  void* const torchs = runtime::allocate_unserved(8, nullptr);
  EXPECT_EQ(newer.calls(), Calls{"raw_alloc_with_stream 8 0x0"});
  runtime::free_unserved(torchs);

  keep(&allocator());
  // Code that had read it before stores it again: it serves already.
  CUDACachingAllocator::allocator = ours;
  serve_thread(source_);
  EXPECT_EQ(&allocator(), ours);
  EXPECT_EQ(torch_.calls(), Calls{});
}

TEST_F(TorchCudaForwarding, TheLibrary) {
  const runtime::TorchCuda& torch = *vesta_torch_cuda();
  EXPECT_EQ(torch.serve(source_), nullptr);
  auto* const native = reinterpret_cast<cudaStream_t>(0x5000);
  void* const block = torch.allocate(40, native);
  allocator().allocate(1);
  EXPECT_EQ(source_->taken().size(), 1U);  // serves this thread again
  torch.free(block);
  EXPECT_EQ(torch_.calls(), (Calls{"raw_alloc_with_stream 40 0x5000", fmt::format("raw_delete {}", fmt::ptr(block))}));
  const c10::Stream seen = torch.stream(native, 2);
  EXPECT_EQ(seen.device(), Device(kCUDA, 2));
  EXPECT_EQ(seen.id(), 0x5000);
  const int before = errors_forgotten;
  torch.clear_error();
  EXPECT_EQ(errors_forgotten, before + 1);
  EXPECT_EQ(torch.serve(nullptr), source_);
  EXPECT_THROW(torch.make_workspaces(), c10::Error);  // no libtorch_cuda is loaded
}

}  // namespace
}  // namespace vesta::testing
