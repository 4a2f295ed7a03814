// Solves a RecomputeProblem.
#pragma once

#include "graph/recompute_problem.h"

namespace vesta::graph {

// Nodes that the backward computes again one after another, without a saved value between them. A kernel computes a
// chain of nodes that fuse wherever its result is read, and results of library calls take memory until they are read.
inline constexpr int kMostFused = 16, kMostCalls = 8;

struct RecomputeChoice {
  Recomputes recomputes;
  std::vector<char> ends_chain;  // for each item: saved because a chain would be longer than the bounds above
};

// The least time without library calls, if that saves at most `most_bytes`. Otherwise the least time that was found
// which does, and if there is none, the fewest bytes.
RecomputeChoice choose_recomputes(const RecomputeProblem& problem, int64_t most_bytes);

// Saves less, as far as `most_bytes`: single results are computed again from what is saved anyway, by at most four
// nodes that fuse, those first that take the least time for a byte. A byte takes at most the time of so many loads of a
// byte. Inputs that the backward may not read otherwise may be copied for that (offer_copies).
void leave_room(RecomputeProblem& problem, RecomputeChoice& choice, int64_t most_bytes, int64_t loads_per_byte);

}  // namespace vesta::graph
