// How a kernel maps to loops and vectors: which variable runs along the lanes, and for each instruction the outermost
// loop level where it can be computed and whether its value is a vector.
#pragma once

#include <vector>

#include "loops/kernel.h"

namespace vesta::codegen {

enum class Family : uint8_t {
  Scalar,   // no vector range
  Rows,     // lanes along an Inner range
  Columns,  // lanes along the last Parallel range, in blocks
};

struct Loop {
  Expr var;
  Expr extent;
  bool lanes = false;
};

// Levels are even: 0 the function, 2 a work item, 4 a group of columns (Columns only), then one for each inner loop.
// Odd numbers are left for loops that only cut another into pieces, where nothing is hoisted to.
struct Shape {
  loops::Kernel kernel;  // indices of a column program are rewritten to block_index * block + lane
  Family family = Family::Scalar;
  int lanes = 1;
  Expr lane;                  // the variable along the lanes; constant 0 for Scalar
  Expr block_index;           // Columns
  std::vector<Loop> loops;    // inner loops, outermost first; the lane loop last
  int innermost = 2;          // level of the body of a loop stage
  int outside = 2;            // level of a stage that is no loop
  std::vector<int> level;     // per instruction
  std::vector<bool> vector;   // per instruction
  std::vector<bool> ordered;  // per instruction: must stay in place (it touches memory that the kernel writes)

  // Per stage: whether unrolled bodies take runs of two vectors apart into one of the even elements and one of the odd
  // ones. A BF16 is the upper half of a float, so each half of a word is widened by one shift or mask and two rounded
  // vectors are put together by one blend; elements in sequence need moves across the register for that.
  std::vector<bool> pairs;

  int level_of(Expr e) const;
  bool is_vector(Expr e) const;
  bool is_run(Expr index) const;           // neighbours along the lanes
  bool is_reversed_run(Expr index) const;  // the same against their order
  loops::Ref binder(Expr indirect) const;
  // Rough cost of one element of a stage; what is hoisted out of it counts nothing.
  int weight(const loops::Stage& s) const;
};

Shape analyse(loops::Kernel kernel);

}  // namespace vesta::codegen
