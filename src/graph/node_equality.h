// Equality and hashes of nodes and of their arguments.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

// Compares bits: == would take -0.0 for 0.0 and would keep equal NaNs apart.
bool same(const Arg& a, const Arg& b);
bool same_results(const Node& a, const Node& b);  // as many, of equal types
// Equal operator, arguments, marks and types of results.
bool same(const Node& a, const Node& b);

size_t hash_of(const Arg& arg);
size_t hash_of(const TensorType& type);
size_t hash_of(const Node& node);  // of its operator and arguments

}  // namespace vesta::graph
