// Words of the graph's text form that the printer and the parser share (docs/graph-text.md).
#pragma once

#include <array>

#include "graph/graph.h"

namespace vesta::graph {

inline constexpr std::array<std::string_view, 4> kRelationTexts = {"==", "!=", "<", ">="};     // by Relation
inline constexpr std::array<std::string_view, 2> kInputKindTexts = {"argument", "parameter"};  // by InputKind

std::string text(const Arg& arg);

// print(), with the arguments that have their default values, too: an operator whose defaults change in another version
// of a library is another text.
std::string print_every_argument(const Graph& graph);

}  // namespace vesta::graph
