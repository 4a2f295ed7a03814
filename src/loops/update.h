// Updates: nodes that write some elements of a buffer which already holds their first operand (scatters, slice_scatter,
// index_put), or the pieces of a result: of a concatenation, or a tensor and the border around it.
//
// An operator's row (ops/rows.h) names its UpdateForm. Guarantees that dimensions along which two elements may be
// written to one index are `ordered`: the schedule may not run them in parallel unless the writes are atomic additions.
#pragma once

#include "loops/lower.h"

namespace vesta::loops {

struct Update {
  std::vector<Expr> sizes;      // of what is written, element by element
  std::vector<bool> ordered;    // dimensions along which an index may repeat: one work item runs them in order
  std::optional<Prim> combine;  // combines with the element in the buffer; nullopt: replaces it
};
// nullopt: not an update this stage can lower; `why` (if given) gets the reason.
std::optional<Update> update_of(const graph::Node& node, std::string* why = nullptr, size_t piece = 0);
// Whether the node adds elements of a type that threads add atomically.
bool adds_in_any_order(const graph::Node& node);

// Values and the indices at which they are read.
using Reads = std::vector<std::pair<const graph::Value*, std::vector<Expr>>>;
// The values read for the element `at` of what is written. Where a tensor is written, its element is the last.
Reads update_reads(const graph::Node& node, std::span<const Expr> at, size_t piece = 0);

// Pieces cover a result, each element once. Each piece can be an Update of its own.
struct Piece {
  const graph::Value* source = nullptr;  // nullptr: a number, the border of a padded tensor
  std::vector<Expr> sizes;
};
bool may_come_in_pieces(const graph::Node& node);
// Empty: it has none that this stage can lower.
std::vector<Piece> pieces_of(const graph::Node& node);

// ---- what rows are made of ----

using Written = std::variant<Update, const char*>;  // the update, or the reason why this stage cannot lower it

struct UpdateForm {
  size_t source;  // the argument that is written: a tensor (the functions get nullptr otherwise) or a number
  Written (*written)(const graph::Node& node, const graph::Value* source);  // nullptr where there are `pieces`
  Reads (*indices)(const graph::Node& node, Lowering::Index at);            // read to compute the index of element `at`
  std::vector<Expr> (*place)(Lowering& l, const graph::Node& node, Lowering::Index at, const Reads& indices,
                             size_t piece);
  std::vector<Piece> (*pieces)(const graph::Node& node) = nullptr;
  bool rounds_each = false;  // the type of the buffer rounds each step of a sum
};

// An update that writes to no index twice.
Update each_once(std::vector<Expr> sizes);
Reads no_indices(const graph::Node& node, Lowering::Index at);

}  // namespace vesta::loops
