// How a kernel maps to loops and vectors: the variable along the lanes, and for each instruction the outermost loop
// level at which it can be computed and whether its value is a vector. Emits nothing.
#pragma once

#include <map>

#include "loops/kernel.h"

namespace vesta::codegen {

// Where the lanes of a kernel's vectors run.
enum class LoopKind : uint8_t {
  Scalar,   // there is no vector range
  Rows,     // lanes along an Inner range
  Columns,  // lanes along the last Parallel range, in blocks
};

struct Loop {
  Expr var;
  Expr extent;
  bool lanes = false;
};

// Levels are even: 0 is the function, 2 a work item, 4 a group of columns (Columns only), then one for each inner loop.
// A product in registers (RegisterTile) has rows at level 4 and columns at level 6. Odd levels are loops that only
// split another loop; nothing is hoisted to them.
struct Shape {
  loops::Kernel kernel;  // indices of a column program are rewritten to block_index * block + lane
  LoopKind kind = LoopKind::Scalar;
  int lanes = 1;
  Expr lane;                  // the variable along the lanes; constant 0 for Scalar
  Expr block_index;           // Columns
  Expr row, row_block;        // of a product in registers: its row, and which block of rows a work item has
  std::vector<Loop> loops;    // inner loops, outermost first; the lane loop is last
  int innermost = 2;          // level of the body of a loop stage
  int outside = 2;            // level of a stage without a loop
  std::vector<int> level;     // per instruction
  std::vector<bool> vector;   // per instruction
  std::vector<bool> ordered;  // per instruction: must stay in place, because it accesses memory that the kernel writes

  // Per stage: whether unrolled bodies split runs of two vectors into even and odd elements. A BF16 is the upper half
  // of a float, so a shift or a mask widens each half of a word, and one blend joins two rounded vectors. Elements in
  // sequence would need moves across the register for that.
  std::vector<bool> pairs;

  int level_of(Expr e) const;
  bool is_vector(Expr e) const;
  bool is_run(Expr index) const;           // adjacent elements along the lanes
  bool is_reversed_run(Expr index) const;  // adjacent elements in the reverse direction
  loops::Ref binder(Expr indirect) const;
  // Marks these comparisons, and what is computed from such values alone, as equal for all lanes.
  void drop_lanes(const std::map<loops::Ref, bool>& known);
  // Rough cost of one element of a stage. Hoisted instructions cost nothing.
  int weight(const loops::Stage& s) const;
};

Shape analyse(loops::Kernel kernel);

}  // namespace vesta::codegen
