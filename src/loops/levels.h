// When the values of a Dag can be computed: what every schedule has to keep.
#pragma once

#include <vector>

#include "loops/dag.h"

namespace vesta::loops {

struct Levels {
  std::vector<char> live;   // per instruction: a store needs it
  std::vector<char> inner;  // differs from one element of the Inner ranges to the next
  std::vector<int> level;   // how many reductions, each of which needs the one before, must be complete
  int last = 0;             // the highest level
  // Accumulates and stores of each element of the Inner ranges: these and what they need make the loops.
  std::vector<Ref> roots;
};
Levels levels_of(const Dag& dag);

}  // namespace vesta::loops
