#include "runtime/cuda/last_calls.h"

#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "machine/cuda/driver.h"
#include "runtime/cuda/torch_cuda.h"

namespace vesta::runtime {
namespace {

constexpr size_t kMostAddresses = 4;
// A capture takes as long as some calls. After the first ones, so many runs must come for each.
constexpr int64_t kFreeCaptures = 4, kRunsForCapture = 16;

// Such memory would have to live as long as the graph.
class NoMemory final : public AllocationSource {
  void* take(size_t) override { VESTA_UNSUPPORTED("a call at the end allocates memory besides its result"); }
  void give_back(void*) noexcept override {}
};

}  // namespace

LastCalls::Captured* LastCalls::find(std::span<void* const> pointers) {
  const auto has_addresses = [&](const Captured& c) {
    for (size_t i = 0; i < buffers_.size(); ++i)
      if (c.addresses[i] != pointers[static_cast<size_t>(buffers_[i])]) return false;
    return true;
  };
  const auto found = std::find_if(captured_.begin(), captured_.end(), has_addresses);
  if (found != captured_.end()) {
    std::rotate(captured_.begin(), found, found + 1);
    return captured_.data();
  }
  if (captured_.size() == kMostAddresses) captured_.pop_back();
  Captured& added = *captured_.emplace(captured_.begin());
  for (const int b : buffers_) added.addresses.push_back(pointers[static_cast<size_t>(b)]);
  return nullptr;
}

void LastCalls::run(std::span<void* const> pointers, c10::function_ref<void()> calls) {
  ++runs_;
  Captured* const known = refused_.empty() ? find(pointers) : nullptr;
  if (!known) return calls();
  if (!known->graph && captures_ < kFreeCaptures + runs_ / kRunsForCapture) known->graph = capture(calls);
  if (!known->graph) return calls();
  try {
    known->graph->launch(on_.stream());
  } catch (const machine::OutOfMemory&) {
    known->graph.reset();
    calls();
  }
}

std::unique_ptr<machine::DeviceGraph> LastCalls::capture(c10::function_ref<void()> calls) {
  ++captures_;
  const TorchCuda& torch = *torch_cuda();
  const machine::RelaxedThread relaxed;
  machine::CaptureStream* capture = nullptr;
  try {
    capture = &on_.capture_stream(true);
    const c10::StreamGuard on(torch.stream(capture->native(), on_.device().index()));
    const ServedBy nothing(std::make_shared<NoMemory>());
    capture->begin();
    calls();
    return capture->end();
  } catch (const c10::OutOfMemoryError&) {  // it is tried again
  } catch (const machine::OutOfMemory&) {
  } catch (const std::exception& e) {
    refused_ = e.what();
    refused_.resize(std::min(refused_.find('\n'), refused_.size()));
    log::print(log::Topic::Graph, "the last calls run outside the CUDA graphs: {}", refused_);
  }
  if (capture) capture->abandon();
  torch.clear_error();
  return nullptr;
}

size_t LastCalls::graphs() const {
  return static_cast<size_t>(
      std::count_if(captured_.begin(), captured_.end(), [](const Captured& c) { return c.graph != nullptr; }));
}

size_t LastCalls::nodes() const {
  size_t nodes = 0;
  for (const Captured& c : captured_) nodes += c.graph ? c.graph->nodes() : 0;
  return nodes;
}

}  // namespace vesta::runtime
