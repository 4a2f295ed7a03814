// The options of a compile, the same in C++ and Python: python/vesta/options.py mirrors the names. Every entry point
// honours every option. Defaults change no result beyond what docs/numerics.md allows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "vesta/error.h"

namespace vesta {

struct VESTA_API Options {
  // false: every size is a constant, and a new shape compiles again. true: every size >= 2 is symbolic.
  // nullopt: a size is a constant until a call changes it; from then on it is symbolic.
  std::optional<bool> dynamic;
  // Throw Unsupported and InternalError instead of running eager.
  bool strict = false;
  // Upper bound in bytes for copies of weights (packed, folded, in another order, side by side), for each graph. -1: on
  // a CPU no bound, but 512 MiB for weights of products; on a GPU no copies.
  int64_t packed_weights = -1;
  // "fast" keeps fp32 between fused half-precision operators; "eager" rounds wherever eager rounds.
  std::string numerics = "fast";
  // How many milliseconds one call waits for compiles and packs weights, of all its parts together; -1: no bound. A
  // call whose time is up runs eager. A compile that has a graph ends in the background then, and later calls use it.
  // A trace that has not ended after four fifths of the time is given up; later calls try again a few times. Compiles
  // with autotune_seconds are waited for, and AOTAutograd, which torch.compile calls where gradients are recorded,
  // cannot be stopped.
  int64_t deadline_ms = 10'000;
  // How many bytes all compiles of the process may take together, by estimates; -1: a quarter of the memory that the
  // process may use. A compile that does not fit waits for others. One that is too large alone is given up: its calls
  // run eager, in Python the functions that it calls are compiled apart, and the reason names what would be enough.
  int64_t compile_memory = -1;
  // No call waits for a compile that has a graph, or while many weights are packed: it runs eager until both have ended
  // in the background.
  bool background = false;
  // "whole": every graph is compiled to machine code. "auto": only if a prediction says that this gains time over
  // `expected_calls` calls; otherwise the graph is run as calls into ATen, or the program runs eager. Graphs on a GPU,
  // those that record gradients, those between graph breaks and those of C++ callables are compiled in any case.
  std::string strategy = "whole";
  // How many calls of each graph "auto" expects.
  int64_t expected_calls = 1'000;
  // Calls of a Python function, and the parts of a call between graph breaks, run uncompiled if measurements on the CPU
  // show that this is faster; calls whose arguments differ in type or size are measured apart. Functions that use a GPU
  // are not measured.
  bool only_if_faster = true;
  // Upper bound for the time that compiles after the first one of a segment take, as a share of the time that the
  // function's calls take. Not counted: twice the time of the first compiles, and at least 2 seconds. A call whose
  // compile would exceed it runs eager; negative: no bound. With `strict` there is none.
  double recompile_share = 0.2;
  // Upper bound for compiled variants of one function (shapes, dtypes, ...). Beyond it, new ones run eager.
  int64_t variant_limit = 16;
  // Graph passes to leave out, by name (`vesta.passes()` lists them).
  std::vector<std::string> skip_passes;
  // Run only the first n rewrites of all passes together, to bisect a wrong rewrite; -1: all.
  int64_t rewrite_limit = -1;
  // Threads that compile kernels; 0: one for each core.
  int compile_threads = 0;
  // false: every operator is a call of PyTorch's own, as the program made it, and no pass changes the computation.
  bool kernels = true;
  // Upper bound for what a compiled program saves for its backward pass: a fraction, from 0 to 1, of what eager saves,
  // or bytes. The backward pass computes the rest again, which takes time. Random numbers are saved in any case, and so
  // are results of operators that Vesta does not know. nullopt: as many bytes as eager saves at most, and nothing is
  // computed again that takes longer than to load it.
  std::optional<std::variant<double, int64_t>> activation_memory;
  // On a GPU: record calls into CUDA graphs where possible, at the second call with the same sizes on a stream.
  bool cuda_graphs = true;
  // Largest input in bytes that is copied into the memory of a CUDA graph, where a library call reads it and its
  // address differs from the recorded one; -1: no bound. For larger inputs, up to four addresses each are recorded;
  // calls with further addresses run without a graph.
  int64_t copied_inputs = int64_t{1} << 20;
  // Upper bound in bytes for all CUDA graphs of the process and their memory; -1: a quarter of the GPU's memory. The
  // least recently used recordings are dropped first.
  int64_t cuda_graph_memory = -1;
  // Seconds that a compile may spend to measure alternative schedules of its kernels and choose the fastest; 0: measure
  // none. The device should do nothing else meanwhile.
  double autotune_seconds = 0;
  // Read and write compiled code in the cache: $VESTA_CACHE_DIR, or the user's cache folder.
  bool cache = true;
  // Write a folder per compile with graphs, plan, LLVM IR and assembly here; empty: $VESTA_DUMP, or none.
  std::string dump_dir;
};

}  // namespace vesta
