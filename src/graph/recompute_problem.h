// The choice of saved values as plain numbers: nodes that may be computed again, and memory that may be saved.
#pragma once

#include "graph/saved_values.h"
#include "graph/work.h"

namespace vesta::graph {

// Costs are times, as a count of the bytes that memory loads in that time, in units of 1 / kUnits byte. Rounded up, so
// that computing again is never more than it seems.
inline constexpr int64_t kUnits = 1 << 10;

struct RecomputeProblem {
  // Memory of a forward value and of its views.
  struct Storage {
    Value* value = nullptr;  // the one that is no view
    int item = -1;           // that computes it; -1: an input
    int64_t bytes = 0;       // that saving it costs
    int64_t load = 0;        // that the backward loads if it reads the storage, and not in eager
    bool required = false;   // a backward node reads it, or it is a gradient
    bool may_save = true;
    bool copied = false;  // an input or output of the program that eager does not save: the program may write to it
  };
  // A forward node that is no view.
  struct Item {
    const Node* node = nullptr;
    std::vector<int> reads, writes;  // storages, each once
    int64_t cost = 0;                // to compute it again; 0 where the program does not need it
    bool program = false;            // an output or a mutation of the program needs it
    bool pinned = false;             // never computed again
    bool library = false;            // computed again only where a limit or a region asks for it
    bool in_region = false;          // of a checkpoint
    bool leaves_region = false;      // the same, and its results are saved rather than computed again
  };
  std::vector<Storage> storages;
  std::vector<Item> items;  // each after those whose results it reads
  double bytes_per_ns = 1;
};

// For each item, whether the backward graph computes it where it needs a result. Any such list is a correct choice:
// what the backward graph needs and does not compute is saved.
using Recomputes = std::vector<char>;

struct Outcome {
  std::vector<char> saved;     // for each storage: the backward graph reads it from memory
  std::vector<char> computed;  // for each item: the backward graph runs it
  int64_t bytes = 0;           // saved
  int64_t time = 0;            // of loads and of computing again, in units
};

// `limited`: there is a bound for the saved bytes. Then the backward may read inputs and outputs that eager does not
// save, to which a program may write meanwhile: autograd raises an error then.
RecomputeProblem make_problem(const Graph& joint, size_t first_tangent, size_t first_gradient, const Target& target,
                              const RegionOf& region_of, bool limited);
// The program may write to an input before the backward half runs. Allows the backward half to read a copy instead.
void offer_copies(RecomputeProblem& problem);
Outcome outcome_of(const RecomputeProblem& problem, const Recomputes& recomputes);
// What eager does: it computes again what lies in checkpoint regions, and saves all else that a derivative reads.
Recomputes eager_recomputes(const RecomputeProblem& problem);

}  // namespace vesta::graph
