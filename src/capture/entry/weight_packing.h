// Packs the weights of a compiled graph for a call that finds them not packed: in the call, if it may wait so long,
// otherwise on a thread, while calls run eager.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/executable.h"
#include "vesta/options.h"

namespace vesta::pipeline {
class Background;
}  // namespace vesta::pipeline

namespace vesta::capture {

inline constexpr const char* kPacksInBackground = "its weights are packed in the background";

// Says whether the program may free the memory of parameters between calls, as FSDP does. If so, calls pack the
// weights, because a thread could read freed memory. Any thread may call it, without the GIL. The process has one such
// function; without it, no program is taken to free parameters.
using FreesParameters = bool (*)();
void set_frees_parameters(FreesParameters ask);

// Thread-safe.
class WeightPacking {
 public:
  explicit WeightPacking(const Options& options) : deadline_ms_(options.background ? 0 : options.deadline_ms) {}

  // The run of the program threw NotPacked for so many bytes. True: the weights are packed now, so run it again. False:
  // the call runs eager. Throws what the packing throws.
  bool pack(const std::shared_ptr<const runtime::Executable>& program, const runtime::CallInputs& in, int64_t bytes);
  // Waits for the thread, if there is one. False: it is still at work.
  bool wait_until(std::chrono::steady_clock::time_point end) const;

 private:
  const int64_t deadline_ms_;
  mutable std::mutex mutex_;
  std::shared_ptr<pipeline::Background> running_;
  bool has_failed_ = false;  // on the thread: calls do it from then on
};

}  // namespace vesta::capture
