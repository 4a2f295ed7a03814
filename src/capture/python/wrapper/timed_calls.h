// Calls of one function that took turns, compiled and uncompiled, and which of them take less time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/python/tensors/backward_time.h"

namespace vesta::capture {

enum class Run : uint8_t { NotTimed, Compiled, Original };

// Times in microseconds, with backward passes.
struct Samples {
  std::vector<double> compiled, original;
  bool has_backward = false;  // some of these calls had a backward pass
  bool recompiles = false;    // a call compiled: its time counts in full
};

struct Comparison {
  double compiled_us = 0, original_us = 0;  // of a call
  bool has_backward = false;                // Samples::has_backward
  std::optional<bool> faster;               // whether compiled calls are faster; nullopt: more samples are needed
};
Comparison compare(const Samples& samples);
std::string text_of(const Comparison& times);  // "67.4 us compiled and 44.1 us uncompiled"

// The timed calls of one measurement. A call's backward pass comes after it, so its time may be known later.
class TimedCalls {
 public:
  TimedCalls() = default;
  // `recompiles`: as in Samples.
  explicit TimedCalls(bool recompiles) { samples_.recompiles = recompiles; }

  bool recompiles() const { return samples_.recompiles; }
  // How the next call runs: not timed, while many calls wait for their backward passes.
  Run next() const;
  // `us`: the time of the call without its backward pass. `backward`: nullptr if it has none.
  void add(Run run, double us, std::shared_ptr<const BackwardTime> backward);
  bool is_waiting() const { return !waiting_.empty(); }
  // Of the calls whose backward passes are over, or will not come.
  Comparison compare_known();

 private:
  struct Waiting {
    Run run;
    double us;
    std::shared_ptr<const BackwardTime> backward;
  };
  bool take(const Waiting& call);

  Samples samples_;
  std::vector<Waiting> waiting_;
  unsigned taken_ = 0;         // calls that were added
  bool ran_original_ = false;  // one of them was of the original
};

}  // namespace vesta::capture
