// Library calls after the last graph of a recording that write large results, which nothing copies. A graph of such
// calls serves the addresses that it was captured with. PyTorch's allocator usually returns the same few addresses for
// the results of repeated calls, so a graph is kept for each of the last addresses.
#pragma once

#include <c10/util/FunctionRef.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/replay_stream.h"

namespace vesta::runtime {

class LastCalls {
 public:
  // `buffers`: all that the calls read and write.
  LastCalls(ReplayStream& on, std::vector<int> buffers) : on_(on), buffers_(std::move(buffers)) {}

  // Does what `calls` does on the current stream, which is that of the recording. `calls` allocates nothing, and puts
  // on the stream the same work for the same addresses. `pointers`: by buffer.
  void run(std::span<void* const> pointers, c10::function_ref<void()> calls);

  size_t graphs() const;
  size_t nodes() const;
  const std::string& why_none() const { return refused_; }  // empty: the calls may be captured

 private:
  struct Captured {
    std::vector<const void*> addresses;           // parallel to buffers_
    std::unique_ptr<machine::DeviceGraph> graph;  // null: only one run had these addresses
  };
  Captured* find(std::span<void* const> pointers);
  std::unique_ptr<machine::DeviceGraph> capture(c10::function_ref<void()> calls);

  ReplayStream& on_;
  const std::vector<int> buffers_;
  std::vector<Captured> captured_;  // most recently used first
  std::string refused_;
  int64_t runs_ = 0, captures_ = 0;
};

}  // namespace vesta::runtime
