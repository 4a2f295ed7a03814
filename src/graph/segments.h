// A backward half in segments, which run one after another and give their gradients when they are done: what waits for
// early gradients, such as an all-reduce, runs at the same time as later segments.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace vesta::graph {

// Values have the ids that they have in the half.
struct Segment {
  std::unique_ptr<Graph> graph;  // with the symbols and guards of the half
  std::vector<uint32_t> reads;   // per input: inputs of the half, and what earlier segments give
  std::vector<uint32_t> gives;   // per output: outputs of the half, and what later segments read
};

// Per output of the half, the segment that gives it: each has at least `bytes` of outputs, the first one `first`, in
// the order in which the half computes them. Outputs that are a tangent or a view of one come with the last segment.
std::vector<int> segments_of(const Graph& half, int64_t first, int64_t bytes);

// The same for less memory: while a segment runs, all that it reads and gives is held. `saved`: the half's first
// inputs, which nothing reads after it. At most `count` segments give and free about as many bytes each. All in one
// where there are few bytes.
std::vector<int> segments_for_memory(const Graph& half, size_t saved, int64_t count);

// Divides the half, or what for_tangents() (tangents.h) has made of it.
std::vector<Segment> divide(const Graph& half, std::span<const int> segment_of_output);

}  // namespace vesta::graph
