#include "graph/min_cut.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::graph {

void MinCut::add_edge(int from, int to, int64_t capacity) {
  if (capacity <= 0) return;
  const auto add = [&](int a, int b, int64_t c) {
    edges_.push_back({b, first_[static_cast<size_t>(a)], c});
    first_[static_cast<size_t>(a)] = static_cast<int>(edges_.size()) - 1;
  };
  add(from, to, capacity);
  add(to, from, 0);
}

// Breadth first, along edges that have capacity left.
bool MinCut::find_levels(int source, int sink) {
  level_.assign(first_.size(), -1);
  std::vector<int> queue = {source};
  level_[static_cast<size_t>(source)] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int e = first_[static_cast<size_t>(queue[i])]; e >= 0; e = edges_[static_cast<size_t>(e)].next) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      int& level = level_[static_cast<size_t>(edge.to)];
      if (edge.capacity == 0 || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[i])] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[static_cast<size_t>(sink)] >= 0;
}

// Along all paths through rising levels, found without recursion: graphs are long.
void MinCut::push_all_paths(int source, int sink) {
  current_ = first_;
  path_.clear();
  for (int at = source;;) {
    if (at == sink) {
      at = push_path();
      continue;
    }
    int& e = current_[static_cast<size_t>(at)];
    while (e >= 0) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.capacity > 0 && level_[static_cast<size_t>(edge.to)] == level_[static_cast<size_t>(at)] + 1) break;
      e = edge.next;
    }
    if (e >= 0) {
      path_.push_back(e);
      at = edges_[static_cast<size_t>(e)].to;
      continue;
    }
    if (path_.empty()) return;
    // Nothing leads on from here: one step back, past the edge that led here.
    const int back = path_.back();
    path_.pop_back();
    at = edges_[static_cast<size_t>(back ^ 1)].to;
    current_[static_cast<size_t>(at)] = edges_[static_cast<size_t>(back)].next;
  }
}

// As much as the path carries. Keeps the part of it before the first edge that is full, and returns where that ends.
int MinCut::push_path() {
  int64_t amount = kInfinite;
  for (const int e : path_) amount = std::min(amount, edges_[static_cast<size_t>(e)].capacity);
  VESTA_CHECK(amount < kInfinite / 2, "a network has only infinite cuts");
  size_t full = path_.size();
  for (size_t i = path_.size(); i-- > 0;) {
    const auto e = static_cast<size_t>(path_[i]);
    edges_[e].capacity -= amount;
    edges_[e ^ 1].capacity += amount;
    if (edges_[e].capacity == 0) full = i;
  }
  const int from = edges_[static_cast<size_t>(path_[full] ^ 1)].to;
  path_.resize(full);
  return from;
}

std::vector<char> MinCut::source_side(int source, int sink) {
  while (find_levels(source, sink)) push_all_paths(source, sink);
  std::vector<char> out(level_.size());
  for (size_t v = 0; v < out.size(); ++v) out[v] = level_[v] >= 0;
  return out;
}

}  // namespace vesta::graph
