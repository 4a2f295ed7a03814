// The loops of one kernel: which ranges, in which order, which of them is the vector, how large a work item is.
//
// Families: row programs (the vector runs along an Inner range), column programs (along the last Parallel range, the
// loops step over the Inner ones), pointwise (no reduction; short or transposed accesses get an Inner range so that
// cache lines and work items are used whole).
#pragma once

#include <functional>
#include <string>

#include "loops/dag.h"
#include "loops/stage.h"
#include "schedule/plan.h"

namespace vesta::schedule {

enum class LoopFamily : uint8_t { Pointwise, Transposed, Row, Column };
std::string_view name(LoopFamily f);

struct LoopChoice {
  LoopFamily family = LoopFamily::Pointwise;
  loops::StageOptions stage;
  Expr items;         // over the graph's symbols
  Expr item_cost;     // nanoseconds
  int64_t bytes = 0;  // moved, under the hints
  double us = 0;
};

// Makes loop variables: the k-th of a kernel, with this extent.
using SymbolPool = std::function<Expr(size_t k, Expr extent)>;

// `ranges` are the group's runs as the dag uses them; the dag's indices are rewritten to the chosen ranges.
LoopChoice choose_loops(loops::Dag& dag, std::vector<loops::Range> ranges, const SymbolPool& symbols,
                        const Options& options);

// Splits runs where indices divide them (dims.cpp): afterwards indices are affine wherever sizes divide.
std::vector<loops::Range> split_ranges(loops::Dag& dag, std::vector<loops::Range> ranges, const SymbolPool& symbols,
                                       size_t& next_symbol);
// Merges neighbours of one kind that every index walks through as one (dims.cpp).
std::vector<loops::Range> merge_ranges(loops::Dag& dag, std::vector<loops::Range> ranges, const SymbolPool& symbols,
                                       size_t& next_symbol);

}  // namespace vesta::schedule
