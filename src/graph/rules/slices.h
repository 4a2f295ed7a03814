// Parts of one dimension: slice bounds and views that give several results.
#pragma once

#include "graph/rules/broadcast.h"

namespace vesta::graph {

// Answers by proofs and hints and records nothing. For nodes of a graph, whose guards were recorded when they were
// added.
class KnownGuards : public Guards {
 public:
  bool equal(Expr a, Expr b) override { return provably_equal(a, b) || hint(a) == hint(b); }
  bool less(Expr a, Expr b) override { return provably_less(a, b) || hint(a) < hint(b); }
  int64_t specialize(Expr e) override { return hint(e); }
};

struct SliceRange {
  Expr start, length, step;
};
// Reads start, end and step as Python does.
SliceRange slice_range(Guards& g, const NodeArgs& args, Expr size);

void split_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results);
void split_with_sizes_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results);
void unbind_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results);
std::vector<Value*> split(Builder& b, const Node& node);
std::vector<Value*> split_with_sizes(Builder& b, const Node& node);
std::vector<Value*> unbind(Builder& b, const Node& node);

}  // namespace vesta::graph
