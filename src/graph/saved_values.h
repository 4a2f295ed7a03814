// Chooses what a forward graph saves for its backward graph.
//
// A joint graph computes outputs and gradients. Of its nodes, those that depend on a tangent are backward nodes; all
// others are forward nodes. Among these, nodes that no output and no mutation of the program needs (a part of a
// derivative's formula, as exp(x)) run in the backward graph, unless their results are saved. What the backward graph
// needs of the others is saved, or computed again from what is saved.
//
// The choice is a minimum cut over the bytes saved and the costs of computing again, as in torch's
// min_cut_rematerialization_partition (torch/_functorch/partitioners.py) and in the papers that it names: T. Chen, B.
// Xu, C. Zhang and C. Guestrin, "Training deep nets with sublinear memory cost", 2016, and P. Jain et al., "Checkmate:
// breaking the memory wall with optimal tensor rematerialization", 2020. The cost of a node counts as the bytes that
// memory loads in the same time (graph/work.h), so the cut is the backward graph that takes the least time.
//
// What costs what:
//   - A saved value costs its memory. Values that share memory (a view and its base) are one; the base is saved.
//   - Inputs and the program's outputs are alive anyway and cost nothing. Without a limit they are saved only where
//     eager saves them as well: a program may write to the others before its backward pass. An output that eager does
//     not save costs its bytes: a copy is saved. With a limit, loading the others costs time. An input that the program
//     writes costs its bytes: a copy is saved.
//   - A node that fuses (graph::Work) costs its arithmetic, and where a library call of the backward reads the result,
//     its way to memory and back. A library call is not computed again, unless a limit or a checkpoint region asks for
//     it.
//   - Random nodes, and operators without a row, are never computed again.
//
// Guarantees, without checkpoint regions: no more bytes than eager saves, and, with the default limit, no more
// estimated time than a backward that saves all that eager saves. For a GPU, a tenth less than that is saved where
// this takes at most the time of six loads of what is not saved.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace vesta {
struct Target;
}

namespace vesta::graph {

// An upper bound for the saved bytes; the smaller one counts. Default: what eager saves. A bound trades time for
// memory: library calls are computed again, those first that take the least time for a byte.
struct Limit {
  std::optional<double> fraction;  // of eager's bytes, >= 0
  std::optional<int64_t> bytes;    // >= 0
};

// The number of the checkpoint region of a node; negative: none. What a region computes for itself alone is not saved,
// except for random nodes and operators without a row. What leaves it is not computed again.
using RegionOf = std::function<int(const Node*)>;

// Why a value is saved rather than computed again.
enum class KeptFor : uint8_t {
  Time,     // loading it takes less
  Random,   // it is drawn from a generator
  Unknown,  // the operator has no row
  Library,  // a library call
  Chain,    // too many nodes one after another would be computed again
  Region,   // the result of a checkpoint region
  Input,    // the program may write to this input
  Output,   // the program returns it, and may write to it
};

std::string_view text_of(KeptFor why);

struct SavedValues {
  // What the backward graph reads of the forward graph: results of forward nodes that are no views, and inputs that are
  // no tangents. Inputs come first; each kind is in the graph's order.
  std::vector<Value*> saved;
  std::vector<Value*> copied;    // those of `saved` that the program returns and eager does not save
  int64_t bytes = 0;             // of those that are not alive anyway
  int64_t eager_bytes = 0;       // the same measure of what eager's autograd saves
  std::optional<int64_t> limit;  // the bound in bytes that was asked for

  std::vector<const Node*> recomputed;  // run in both graphs, in the graph's order; views are not listed
  std::vector<const Node*> moved;       // forward nodes that run in the backward graph alone
  struct Kept {
    const Value* value = nullptr;
    int64_t bytes = 0;
    KeptFor why = KeptFor::Time;
  };
  std::vector<Kept> kept;  // for each saved value that costs bytes

  // Estimates of the backward graph, in microseconds: of loads of what is saved, of computing again, and of eager's
  // loads.
  double load_us = 0, recompute_us = 0, eager_us = 0;

  bool reached() const { return !limit || bytes <= *limit; }
};

// Inputs from `first_tangent` on are tangents, outputs from `first_gradient` on are gradients (Fresh or None). Throws
// UserError for a negative limit, InternalError if an output of the program depends on a tangent.
SavedValues choose_saved(const Graph& joint, size_t first_tangent, size_t first_gradient, const Limit& limit,
                         const Target& target, const RegionOf& region_of = {});

// A line for each saved value and for each node that is computed again, with bytes and reasons, then sums.
std::string print(const SavedValues& choice);

}  // namespace vesta::graph
