// Graph passes are rows: a name, a function, and where in the order. Timing, dumping, skipping and bisecting by name
// come with the row (pass_table.cpp); each pass is one pair of files.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "graph/graph.h"
#include "vesta/options.h"

namespace vesta::graph {

struct PassContext {
  const Options& options;
  DeviceType device = DeviceType::CPU;  // that the graph is compiled for
  bool inference = true;                // no graph input requires a gradient
  // Asks to make one more rewrite; false once Options::rewrite_limit is reached. Every rewrite of a pass asks first.
  std::function<bool()> may_rewrite = [] { return true; };
};

// Returns whether anything changed.
using PassFn = bool (*)(Graph& graph, const PassContext& context);

struct PassRow {
  std::string_view name;  // "dead-code"
  PassFn run;
  std::optional<DeviceType> device = {};  // it runs for graphs compiled for this one; none: for all
  bool keeps_calls = false;  // what computes is called as in the program: runs also where Options::kernels is false
};

std::span<const PassRow> pass_table();  // in order

// Runs all rows, and after each that changed something removes what is dead (unless "dead-code" is skipped);
// `observe(row, before)` is called around each (for timing and dumps). Verifies after each pass when `verify_each` is
// set (always in tests and debug builds).
void run_passes(Graph& graph, const PassContext& context, bool verify_each,
                const std::function<void(const PassRow&, bool before)>& observe = {});

}  // namespace vesta::graph
