// The lowering table: one row for each operator whose elements, writes or checks do not follow from its family. A file
// of this folder has the name of the file in graph/ops/ that has the operators' rows.
//
// Pointwise operators need no row here: their body in the op table is the lowering. Composite operators need none: they
// are decomposed before. Reductions and scans are lowered from their schema: ops/reductions.cpp and ops/scan.cpp.
//
// Guarantees at most one row per operator. A row may not allocate buffers or choose loops; it emits scalars through the
// Lowering it is given.
#pragma once

#include "loops/index_tensors.h"
#include "loops/lower.h"
#include "loops/update.h"

namespace vesta::loops {

using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;

// For the families Indexed and Factory: computes the element of result `v` at `index`.
using ElementFn = ScalarRef (*)(Lowering& l, const Node& node, const Value* v, Index index);

struct LoweringRow {
  const char* names;  // as in the op table, with blanks between several
  ElementFn element = nullptr;
  bool (*accepts)(const Node& node) = nullptr;  // by types and arguments alone; nullptr: every node
  bool once = false;                            // reads each element of its operands at most once
  bool gathers = false;                         // reads the first operand at indices that the others hold
  bool whole_rows = false;                      // gathers whole rows of contiguous elements
  bool windows = false;  // reads each element many times, under conditions that depend on the pixel alone
  bool moves = false;    // gives elements of its operands or 0, so complex numbers are lowered part by part
  bool one_hot = false;  // is lowered as a sum where is_one_hot_gather() holds
  const UpdateForm* update = nullptr;  // writes some elements of a buffer (update.h)
  std::optional<Prim> combine =
      std::nullopt;                     // updates combine with the element in the buffer, whatever the arguments say
  IndexCheckFn index_checks = nullptr;  // gives the checks of its index tensors; nullptr: it has none
  ProductOperands (*product)(const Node& node) = nullptr;  // a matrix product; without `rows`: these operands form none
  bool unordered = false;         // ATen's CUDA kernel is not deterministic: it raises an error in deterministic mode
  const char* refusal = nullptr;  // why no kernel computes it, although its family has a lowering
};

// The row of an operator, or nullptr.
const LoweringRow* find_lowering(const graph::Op& op);
inline const LoweringRow* find_lowering(const Node& node) { return find_lowering(*node.op); }

std::span<const LoweringRow> factory_lowerings();
std::span<const LoweringRow> indexing_lowerings();
std::span<const LoweringRow> joining_lowerings();
std::span<const LoweringRow> matmul_lowerings();
std::span<const LoweringRow> moving_lowerings();
std::span<const LoweringRow> padding_lowerings();
std::span<const LoweringRow> pooling_lowerings();
std::span<const LoweringRow> scan_lowerings();
std::span<const LoweringRow> scatter_lowerings();
std::span<const LoweringRow> upsample_lowerings();

}  // namespace vesta::loops
