// A backward pass is divided into parts, and each node of autograd's graph belongs to one of them. A gradient leaves
// its part at a tensor with hooks, because autograd calls these between two parts, and where paths through the graph
// meet that have passed different numbers of hooks.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/joint.h"
#include "trace/gradients/graph_history.h"
#include "trace/gradients/joint.h"
#include "trace/gradients/node_walk.h"

namespace vesta::trace {

// Where a part of the pass begins: at a result with a gradient of its own, as graph::JointPart::results numbers them,
// or at a crossing.
struct Root {
  torch::autograd::Edge edge;
  at::Tensor tensor;  // of a result
  int number;         // of the result or the crossing
  bool is_crossing = false;
};

class Crossings {
 public:
  // `leaves`: results that are leaves of the program's own. `ends`: of all parts, where inputs and leaves are.
  Crossings(const GraphHistory& history, const std::vector<JointInput>& inputs, std::span<const HookedResult> hooked,
            const std::vector<Root>& leaves, const std::vector<Root>& roots, const Ends& ends);

  // How many hooks a gradient has passed at most when it comes here. A part runs nodes of one level.
  int level(const torch::autograd::Edge& e) const;
  int deepest() const;
  Ends ends_of(int level) const;
  // The crossings that parts of this level take.
  std::vector<Root> roots_of(int level) const;
  // Whether a call gives a result with this edge the history of a crossing.
  bool is_hooked(const torch::autograd::Edge& e) const;
  // Edges at which a part may end, and the crossings there.
  const std::vector<std::pair<torch::autograd::Edge, int>>& entries() const { return entries_; }
  // `parts`: how many parts there are when those of this level, and of all deeper ones, have been made.
  void say_parts_done(int level, size_t parts);

  std::vector<graph::Crossing> crossings;
  std::vector<HookPlace> places;  // the last one that a gradient comes to is the first

 private:
  using Node = torch::autograd::Node;
  using Edge = torch::autograd::Edge;
  using Key = std::pair<const Node*, uint32_t>;

  void find_levels(const std::vector<NodePointer>& starts);
  int add(const Edge& e, int place);
  int taken(const Edge& e);
  int entered(const Edge& e);
  int enter(const Edge& e, int crossing);
  int enter_relay(const Edge& e);
  int add_place(const Node* node);
  int add_to_place(const Edge& e, int place, int next);
  void sort_places();

  const GraphHistory& history_;
  const std::vector<JointInput>& inputs_;
  const Ends& ends_;
  std::map<Key, const HookedResult*> hooked_;
  Ends hooked_nodes_, relays_;  // relays: nodes that call hooks and pass on what they give
  std::unordered_map<const Node*, NodePointer> nodes_;
  std::unordered_map<const Node*, int> levels_;
  std::map<Key, int> taken_, entered_;
  std::vector<std::pair<Edge, int>> entries_;
  std::vector<std::pair<int, uint64_t>> place_levels_;  // per place: its level and its node's number
};

}  // namespace vesta::trace
