// What Vesta has done in this process, in one table. Link Vesta::vesta.
//
//   std::puts(to_string(vesta::stats()).c_str());
//   std::string page = vesta::prometheus(vesta::stats());  // for a server's /metrics
//
// Counts begin when the process does, and again at reset_stats(). They include functions that do not exist any more.
// Bytes are those that are held now, and peaks the most that was held. Any thread may call these functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "vesta/error.h"

namespace vesta {

struct StageTotal {
  int64_t runs = 0;
  double ms = 0;
};

struct Stats {
  // Compiles. Stages of compiles that run side by side add up.
  std::map<std::string, StageTotal> stages;  // trace, find, passes, plan, codegen, assemble, encode, load, ...
  double waited_ms = 0;                      // that calls spent on traces and compiles
  int64_t frames = 0;                        // Python functions of which a part was compiled
  int64_t segments = 0;                      // of these frames: parts between graph breaks that were compiled
  int64_t variants = 0;                      // graphs made, those of C++ callables and of torch.compile included
  int64_t recompiles = 0;                    // of these: made because a guard failed
  std::map<std::string, int64_t> breaks;     // traces that ended at a graph break, by its name in docs/breaks.md
  // Calls
  int64_t calls = 0;                         // of compiled Python functions
  int64_t aside = 0;                         // of these: ran uncompiled because a compile gains nothing
  int64_t hits = 0;                          // entries of a segment, or calls from C++, that a variant served
  int64_t early_hits = 0;                    // of the hits: by calls into ATen, before the machine code was made
  int64_t misses = 0;                        // and that none served
  std::map<std::string, int64_t> fallbacks;  // calls, or the rests of calls, that ran eager, by reason
  // Caches
  int64_t artifacts_found = 0;     // compiled graphs that were in the cache on disk
  int64_t artifacts_missed = 0;    // and that were not
  int64_t kernels_in_process = 0;  // kernels that this process had already
  int64_t kernels_in_store = 0;    // that were in the cache on disk
  int64_t kernels_compiled = 0;    // that were compiled
  // Memory, in bytes
  int64_t graph_bytes = 0;                     // graphs of compiles and traces that go on; these three are estimates
  int64_t plan_bytes = 0;                      // and their plans
  int64_t generator_bytes = 0;                 // that LLVM takes for the kernels it is compiling
  int64_t code_bytes = 0;                      // machine code of kernels
  int64_t arena_bytes = 0;                     // for intermediates, which threads keep between calls
  int64_t pool_bytes = 0;                      // freed outputs, kept for the next ones of their size
  int64_t packed_bytes = 0;                    // packed and folded weights
  int64_t cuda_graph_bytes = 0;                // of recorded CUDA graphs, on GPUs
  std::map<std::string, int64_t> peak_bytes;   // the most of each since the last reset: "graph_bytes", ...
  std::map<std::string, int64_t> owner_bytes;  // arenas by thread, CUDA graphs by stream

  double compile_ms() const;  // of all stages
};

VESTA_API Stats stats();
VESTA_API void reset_stats();

VESTA_API std::string to_string(const Stats& stats);
VESTA_API std::string prometheus(const Stats& stats);  // Prometheus's text format

}  // namespace vesta
