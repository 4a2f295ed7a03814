#include "pipeline/half_segments.h"

#include <algorithm>
#include <iterator>

#include "graph/segments.h"
#include "graph/tangents.h"

namespace vesta::pipeline {

HalfSegments::HalfSegments(const graph::Graph& half, std::vector<int> segments)
    : text_(graph::print(half)),
      segments_(std::move(segments)),
      count_(segments_.empty() ? 1 : 1 + *std::ranges::max_element(segments_)) {}

HalfSegments::Divided HalfSegments::divide(States states) const {
  const std::unique_ptr<graph::Graph> half = graph::for_tangents(*graph::parse(text_), states);
  std::vector<graph::Segment> all = graph::divide(*half, segments_);
  Divided out;
  std::vector<uint32_t> waiting;
  for (size_t s = all.size(); s-- > 0;) {
    auto made = std::make_shared<runtime::SegmentWires>();
    for (const graph::Input& in : half->inputs) made->inputs.push_back(in.value->id);
    for (const graph::Output& o : half->outputs)
      made->outputs.push_back(o.kind == graph::OutputKind::None ? -1 : int64_t{o.value->id});
    made->reads = all[s].reads;
    made->gives = std::move(all[s].gives);
    const auto is_last = [&](uint32_t id) { return !std::ranges::binary_search(waiting, id); };
    std::ranges::transform(made->reads, std::back_inserter(made->last), is_last);
    std::ranges::copy_if(made->gives, std::back_inserter(made->drops), is_last);
    if (s == 0) std::ranges::copy_if(made->inputs, std::back_inserter(made->drops), is_last);
    made->values = half->value_count();
    waiting.insert(waiting.end(), all[s].reads.begin(), all[s].reads.end());
    std::ranges::sort(waiting);
    out.wires.push_back(std::move(made));
    out.graphs.push_back(std::move(all[s].graph));
  }
  std::ranges::reverse(out.wires);
  std::ranges::reverse(out.graphs);
  return out;
}

HalfSegments::Divided& HalfSegments::divided(States states) {
  std::vector<TangentState> key(states.begin(), states.end());
  const auto it = divided_.find(key);
  return it != divided_.end() ? it->second : divided_.emplace(std::move(key), divide(states)).first->second;
}

std::unique_ptr<graph::Graph> HalfSegments::graph(States states, int segment) {
  if (count_ == 1) return graph::for_tangents(*graph::parse(text_), states);
  const std::lock_guard lock(mutex_);
  const auto s = static_cast<size_t>(segment);
  if (auto taken = std::move(divided(states).graphs[s])) return taken;
  return std::move(divide(states).graphs[s]);
}

std::shared_ptr<const runtime::SegmentWires> HalfSegments::wires(States states, int segment) {
  const std::lock_guard lock(mutex_);
  return divided(states).wires[static_cast<size_t>(segment)];
}

}  // namespace vesta::pipeline
