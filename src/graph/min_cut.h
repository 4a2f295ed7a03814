// The minimum cut of a flow network with integer capacities.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace vesta::graph {

// Dinic's algorithm: E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power
// estimation", Soviet Mathematics Doklady 11, 1970. The result depends on the edges and their order alone.
class MinCut {
 public:
  // Not to be cut. Other capacities must add up to less.
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit MinCut(size_t vertices) : first_(vertices, -1) {}
  void add_edge(int from, int to, int64_t capacity);
  // For each vertex, whether it is on the source's side, of the minimum cut that is nearest to the source. Call it
  // once. InternalError if every cut is infinite.
  std::vector<char> source_side(int source, int sink);

 private:
  struct Edge {
    int to, next;
    int64_t capacity;  // that is left
  };
  bool find_levels(int source, int sink);
  void push_all_paths(int source, int sink);
  int push_path();
  std::vector<int> first_, level_, current_, path_;
  std::vector<Edge> edges_;  // an edge and its reverse are neighbours: i and i ^ 1
};

}  // namespace vesta::graph
