// Checkpoint regions: parts of a program whose values the backward pass computes again (torch.utils.checkpoint).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/joint.h"

namespace vesta::trace {

class Recorder;

// Those of one trace. A region inside of another belongs to it.
class CheckpointRegions {
 public:
  void begin(uint32_t first_value);
  // Returns whether the region wrote to memory from outside of it.
  bool end(uint32_t end_value);
  // A write to the memory of an input, or to memory whose contents are this value so far.
  void note_write(bool to_input, uint32_t value);
  // The outermost ones that have ended.
  const std::vector<graph::CheckpointRegion>& regions() const { return ended_; }

 private:
  struct Open {
    uint32_t first = 0;
    bool wrote_outside = false;
  };
  std::vector<Open> open_;
  std::vector<graph::CheckpointRegion> ended_;
};

// A region of the calling thread's trace, while it lives.
class CheckpointScope {
 public:
  CheckpointScope();
  ~CheckpointScope();
  CheckpointScope& operator=(CheckpointScope&&) = delete;  // neither copied nor moved

  // Ends the region. Returns whether it wrote to memory from outside of it.
  bool end();
  bool draws() const;  // random numbers, so far

 private:
  Recorder* recorder_;  // nullptr: it has ended
  const int64_t draws_before_;
};

}  // namespace vesta::trace
