// Graph passes are rows of one table: a name, a function, and a position in the order. Timing, dumping, skipping and
// bisecting by name come with the row (pass_table.cpp). Each pass is a source of its own, declared in passes.h. A pass
// may not change what a graph computes, nor the types of its outputs and mutations.
#pragma once

#include <algorithm>

#include "graph/graph.h"
#include "vesta/options.h"

namespace vesta::graph {

struct PassContext {
  const Options& options;
  DeviceType device = DeviceType::CPU;  // that the graph is compiled for
  bool inference = true;                // no graph input requires a gradient
  int64_t vector_bytes = 64;            // the widest vector of a CPU (Target::vector_bytes)
  int64_t cache_bytes = 4 << 20;        // that one kernel of a CPU may leave to the next one in the caches
  bool library_bf16 = true;             // whether oneDNN has code for bfloat16 on this CPU
  bool matrices = false;                // whether the CPU has AMX for bfloat16
  // Whether a kernel computes a matrix product of these sizes, of half types on a GPU, of F32 and BF16 on a CPU. None:
  // no kernel computes products.
  std::function<bool(DType element, int64_t rows, int64_t columns, int64_t inner)> computes_product = {};
  // On a CPU: the rows of a panel in which a kernel reads a packed weight for a product of these sizes, whose operand's
  // rows are `apart` elements apart; 0: packing does not pay. None: no kernel computes products.
  std::function<int64_t(DType element, int64_t rows, int64_t columns, int64_t inner, int64_t apart)> panel_of = {};
  // Nodes from here on stay as they are, for align_products; nullptr: there are none.
  const Node* end = nullptr;
  // Asks for permission to make one more rewrite; false once Options::rewrite_limit is reached. A pass asks before
  // every rewrite.
  std::function<bool()> may_rewrite = [] { return true; };
};

// Whether Options::skip_passes names the pass.
inline bool skips(const Options& options, std::string_view pass) {
  return std::ranges::find(options.skip_passes, pass) != options.skip_passes.end();
}

// Returns whether the graph changed.
using PassFn = bool (*)(Graph& graph, const PassContext& context);

struct PassRow {
  std::string_view name;  // "dead-code"
  PassFn run;
  std::optional<DeviceType> device = {};  // it runs for graphs compiled for this one; none: for all
  bool keeps_calls = false;  // what computes is called as in the program: runs also where Options::kernels is false
};

std::span<const PassRow> pass_table();  // in order

// Runs all rows, and removes dead nodes after each row that changed something (unless "dead-code" is skipped). Calls
// `observe(row, before)` around each row, for timing and dumps. Verifies the graph after each pass when `verify_each`
// is set (always in tests and debug builds).
void run_passes(Graph& graph, const PassContext& context, bool verify_each,
                const std::function<void(const PassRow&, bool before)>& observe = {});

}  // namespace vesta::graph
