// Matrix products that a CPU's kernel computes with its sums in registers (loops/register_product.h).
#pragma once

#include "graph/graph.h"
#include "loops/dag.h"
#include "schedule/plan.h"

namespace vesta::schedule {

// Whether the CPU has AMX, whose instructions multiply BF16 several times as fast as vector instructions.
bool has_matrices(const Target& target);

// Whether a kernel computes a product of F32 or BF16 matrices of these sizes at least as fast as the library. Rows may
// be a hint.
bool computes_in_registers(DType element, int64_t rows, int64_t columns, int64_t inner, const Target& target);
// The columns of the fastest tile for these sizes; 0: there are no tiles. Rows are so many elements apart.
int64_t panel_of(DType element, int64_t rows, int64_t columns, int64_t inner, int64_t apart, const Target& target);
// Whether a kernel computes the node: it is such a product, of operands that lie in memory.
bool is_register_product(const graph::Node& node, const Target& target);

struct RegisterChoice {
  std::vector<loops::Range> rows, columns;  // ranges of the dag that together are the row, and the column
  std::vector<loops::Range> inner;          // that together are the last Inner range: its pairs, and their elements
  loops::RegisterTile tile;
  int64_t block = 0;  // columns of a work item
  Expr items, item_cost;
  double us = 0;
};

// The tiles for a dag that computes one product, whose ranges are ordered and merged. nullopt: it computes something
// else, or the target has too few registers.
std::optional<RegisterChoice> choose_registers(const loops::Dag& dag, const Target& target);

// A way to divide the product of a kernel.
struct RegisterTiling {
  loops::RegisterTile tile;
  int64_t block = 0;  // columns of a work item
};
// Ways that the registers have room for, the fastest ones by the cost model first: at most three for each form of a
// tile. None for a kernel whose sizes are symbolic. Columns that are read in panels stay those of a panel.
std::vector<RegisterTiling> register_tilings(const loops::Kernel& kernel, const Target& target);

// Decides which operands of the kernel are packed.
void choose_packing(loops::Kernel& kernel);

}  // namespace vesta::schedule
