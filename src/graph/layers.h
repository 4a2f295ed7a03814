// Layers of a model: parts of a graph that follow each other and compute the same with other inputs. A graph with a few
// of them is planned instead of the whole, and the steps of one layer are repeated (schedule/repeat_layers.h).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace vesta::graph {

// Where something stands in a chain: in a list with one member for each layer, in the order of the layers.
struct ChainPlace {
  int chain = -1;  // -1: in none
  int at = -1;     // from the first layer of the chain on
};
struct Chains {
  std::vector<std::vector<int>> members;
  std::vector<ChainPlace> places;
};
// Follows next[i], which stands in the next layer where i stands; -1: nothing does; i itself: all layers share it.
// `before` is the inverse: before[next[i]] is i. Returns nullopt if `next` has a cycle.
std::optional<Chains> chains_of(const std::vector<int>& next, const std::vector<int>& before);

// Which of a graph's inputs, outputs or mutations the graph with fewer layers keeps.
struct Kept {
  std::vector<int> whole;  // by index in the graph with fewer layers: its index in the whole graph
  // Those that layers have: indices in the whole graph, in the order of the layers. The other graph has all but the
  // last Layers::dropped() of a chain.
  std::vector<std::vector<int>> chains;
  // By index in the whole graph, of `count`: the one in the other graph that has the same type.
  std::vector<int> templates(size_t count, int dropped) const;
};

struct Layers {
  int count = 0;               // in the whole graph
  int kept = 0;                // in `few`
  std::unique_ptr<Graph> few;  // shares the whole graph's expressions
  Kept inputs, outputs, mutations;
  int dropped() const { return count - kept; }
};

// Whether two nodes were asked for at the same line of the program, by their `source`.
using SameSource = std::function<bool(const std::string&, const std::string&)>;

// Finds the layers of a traced graph. None: fewer than eight layers, or layers that other parts of the program read, so
// that leaving some out would change more than the number of layers.
std::optional<Layers> find_layers(const Graph& graph, const SameSource& same_source);

// Gives the whole graph what passes found out about the other: guards, and types of inputs and outputs.
void take_facts(Graph& whole, const Layers& layers);

}  // namespace vesta::graph
