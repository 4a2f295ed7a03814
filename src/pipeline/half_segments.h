// A backward half and its segments, for the compiles of all of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/backward.h"
#include "graph/graph.h"
#include "runtime/differentiable.h"

namespace vesta::pipeline {

// Thread-safe. Keeps the half as text: that takes little memory, and graphs for other than dense tangents are rare.
class HalfSegments {
 public:
  using States = std::span<const TangentState>;
  // `segments`: per output of the half, the segment that gives it; empty: there is one.
  HalfSegments(const graph::Graph& half, std::vector<int> segments);

  int count() const { return count_; }
  int segment_of(int output) const { return segments_.empty() ? 0 : segments_[static_cast<size_t>(output)]; }
  // For tangents in these states.
  std::unique_ptr<graph::Graph> graph(States states, int segment);
  // Of a half that has several segments.
  std::shared_ptr<const runtime::SegmentWires> wires(States states, int segment);

 private:
  struct Divided {
    std::vector<std::unique_ptr<graph::Graph>> graphs;  // nullptr: it has been taken
    std::vector<std::shared_ptr<const runtime::SegmentWires>> wires;
  };
  Divided divide(States states) const;
  Divided& divided(States states);

  const std::string text_;
  const std::vector<int> segments_;
  const int count_;
  std::mutex mutex_;
  std::map<std::vector<TangentState>, Divided> divided_;
};

}  // namespace vesta::pipeline
