// Copies of graphs and of their nodes.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>

#include "graph/graph.h"

namespace vesta::graph {

// A copy that shares nothing with the graph: another thread may rewrite either of them.
std::unique_ptr<Graph> copy(const Graph& graph);

// Gives the expression of the copy for one of the original.
using ExprMap = std::function<Expr(Expr)>;
std::vector<Expr> mapped(std::vector<Expr> list, const ExprMap& map);
TensorType mapped(const TensorType& type, const ExprMap& map);

// Adds a copy of a node of another graph, without its marks (`prepacked`, `raises`). `values`: the value of the copy
// for each that the node reads; the node's results are added to it.
Node* add_copy(Graph& to, const Node& node, const ExprMap& map, std::unordered_map<const Value*, Value*>& values);

}  // namespace vesta::graph
