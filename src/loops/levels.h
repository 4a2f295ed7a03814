// The order in which a schedule may compute the values of a Dag.
#pragma once

#include "loops/dag.h"

namespace vesta::loops {

struct Levels {
  std::vector<char> live;   // per instruction: whether a store needs it
  std::vector<char> inner;  // per instruction: whether it differs between elements of the Inner ranges
  std::vector<int>
      level;     // per instruction: how many reductions, each of which needs the one before it, must be complete
  int last = 0;  // the highest level
  // Accumulates and stores of each element of the Inner ranges. These and what they need are the loops.
  std::vector<Ref> roots;
};
Levels levels_of(const Dag& dag);

}  // namespace vesta::loops
