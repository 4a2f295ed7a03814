// Options of a compile, the same in C++ and Python (python/vesta/options.py mirrors the names).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vesta/error.h"

namespace vesta {

struct VESTA_API Options {
  // false: every size is a constant and a new shape compiles again. true: every size >= 2 is symbolic.
  // nullopt: sizes are constants until one is seen to change; from then on it is symbolic.
  std::optional<bool> dynamic;
  // Rethrow what would otherwise run eager (Unsupported, InternalError).
  bool strict = false;
  // Bytes that packed or folded copies of weights may take: 0 is off, -1 without bound.
  int64_t packed_weights = -1;
  // "fast" keeps fp32 between fused half-precision operators; "eager" rounds where eager rounds.
  std::string numerics = "fast";
  // Compiled variants of one function (shapes, dtypes, ...) before new ones run eager.
  int64_t variant_limit = 16;
  // Graph passes to leave out, by name (`vesta.passes()` lists them).
  std::vector<std::string> skip_passes;
  // Run only the first n rewrites of all passes together, to bisect a wrong one; -1: all.
  int64_t rewrite_limit = -1;
  // Threads that compile kernels; 0: all cores.
  int compile_threads = 0;
  // false: every operator is a call of PyTorch's own, as the program made it, and no pass changes what is computed.
  bool kernels = true;
  // On a GPU: record calls into CUDA graphs where that is possible, the second call with the same sizes on a stream.
  bool cuda_graphs = true;
  // Bytes up to which an input is copied into the memory of a CUDA graph, where a library call reads it and its address
  // is not the recorded one; -1 without bound. Larger ones are recorded for, four addresses of each, or run directly.
  int64_t copied_inputs = int64_t{1} << 20;
  // Bytes that all CUDA graphs of the process and their memory may take; -1: a quarter of the GPU's. What was used
  // least recently goes first.
  int64_t cuda_graph_memory = -1;
  // On a GPU: seconds that a compile may take to measure other schedules of its kernels, and to choose the fastest; 0:
  // none is measured.
  double autotune_seconds = 0;
  // Read compiled kernels from the cache in $VESTA_CACHE_DIR (by default the user's folder for caches), and write them.
  bool cache = true;
  // One folder per compile with graphs, plan, LLVM IR and assembly; empty: $VESTA_DUMP, or none.
  std::string dump_dir;
};

}  // namespace vesta
