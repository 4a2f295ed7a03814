#include "graph/min_cut.h"

#include <gtest/gtest.h>

#include <random>

#include "vesta/error.h"

namespace {

using vesta::graph::MinCut;

struct Edge {
  int from, to;
  int64_t capacity;
};

// Of the edges from one side to the other; bit v: vertex v is on the source's side.
int64_t cost(const std::vector<Edge>& edges, uint32_t side) {
  int64_t sum = 0;
  for (const Edge& e : edges)
    if ((side >> e.from & 1) && !(side >> e.to & 1)) sum += e.capacity;
  return sum;
}

TEST(MinCut, IsTheLeastOfAllAndTheNearestToTheSource) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  for (int round = 0; round < 500; ++round) {
    const int n = 2 + below(8);
    std::vector<Edge> edges;
    for (int i = below(3 * n); i >= 0; --i) edges.push_back({below(n), below(n), below(5)});
    MinCut network(static_cast<size_t>(n));
    for (const Edge& e : edges) network.add_edge(e.from, e.to, e.capacity);
    const std::vector<char> kept = network.source_side(0, 1);
    uint32_t side = 0;
    for (int v = 0; v < n; ++v) side |= static_cast<uint32_t>(kept[static_cast<size_t>(v)]) << v;
    ASSERT_EQ(side & 3, 1u);
    for (uint32_t other = 1; other < 1u << n; other += 4) {  // with the source, without the sink
      ASSERT_LE(cost(edges, side), cost(edges, other));
      if (cost(edges, side) == cost(edges, other)) {
        ASSERT_EQ(side & other, side);
      }
    }
  }
}

TEST(MinCut, FollowsLongPathsAndLargeCapacities) {
  constexpr int kLength = 100'000;
  MinCut network(kLength);
  for (int v = 1; v < kLength; ++v) {
    const int64_t capacity = v == 70'000 ? int64_t{1} << 58 : MinCut::kInfinite;
    network.add_edge(v == 1 ? 0 : v, v == kLength - 1 ? 1 : v + 1, capacity);
  }
  const std::vector<char> kept = network.source_side(0, 1);
  EXPECT_TRUE(kept[70'000]);
  EXPECT_FALSE(kept[70'001]);
}

TEST(MinCut, RefusesAnInfiniteCut) {
  MinCut network(3);
  network.add_edge(0, 2, MinCut::kInfinite);
  network.add_edge(2, 1, MinCut::kInfinite);
  EXPECT_THROW(network.source_side(0, 1), vesta::InternalError);
}

}  // namespace
