// What explain() shows: what a compile did and what its calls did since.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "vesta/error.h"

namespace vesta {

struct StageTime {
  std::string name;  // "trace", "pass:views", "plan", "codegen", ...
  double ms = 0;
};

struct ExternReason {
  std::string op;
  std::string reason;
  int64_t count = 0;
};

struct KernelInfo {
  std::string name;
  std::vector<std::string> ops;
  int64_t bytes = 0;  // estimated bytes moved
  double estimated_us = 0;
};

// By what a compile's result is found in the cache: everything that it depends on.
struct CacheKey {
  std::string entry;                                        // its name there
  std::vector<std::pair<std::string, std::string>> fields;  // by name: graph, facts, options, target, ...
  std::vector<std::string> lines;                           // "<line 3>" in the field "graph" is lines[3]
};

// CUDA graphs of a compiled program.
struct GraphReport {
  int64_t recorded = 0;  // how often it was recorded: for a stream, sizes and addresses
  int64_t kept = 0;      // recordings that there are now; the following is of them
  int64_t graphs = 0;    // more than one of a recording: steps between them run directly
  int64_t nodes = 0;
  int64_t bytes = 0;                      // of memory
  double record_ms = 0;                   // all times together
  std::map<std::string, int64_t> direct;  // steps that run beside the graphs, by reason
  std::string why_none;                   // empty: it has been recorded, or its calls were too few
};

// Schedules of kernels that were measured on the GPU.
struct TuningReport {
  int64_t kernels = 0;    // distinct ones that have other schedules
  int64_t known = 0;      // those of them whose choice was read from the cache
  int64_t measured = 0;   // those that were measured now, with all of their schedules
  int64_t left = 0;       // those that no time, or no memory, was left for
  int64_t schedules = 0;  // that were measured
  int64_t changed = 0;    // kernels that are not as the planner made them
  double seconds = 0;     // the stage took
  double before_us = 0;   // all launches of the known and the measured kernels in a call, as the planner made them
  double after_us = 0;    // and as chosen
  std::string why_none;   // empty: kernels were looked at
};

struct CompileReport {
  int64_t ops_traced = 0;
  int64_t ops_fused = 0;
  int64_t ops_extern = 0;
  std::vector<ExternReason> externs;
  std::vector<KernelInfo> kernels;
  int64_t distinct_kernels = 0;  // after equal ones were merged
  int64_t cached_kernels = 0;    // those of them that were read from the cache
  bool cached = false;           // the whole artifact was read from the cache: nothing was planned or generated
  std::shared_ptr<const CacheKey> key;
  int64_t code_bytes = 0;
  int64_t arena_bytes = 0;        // memory for intermediates, of a thread and kept between its calls
  int64_t early_arena_bytes = 0;  // and more for the first part of a call, given back before its large results are made
  int64_t packed_bytes = 0;       // derived (packed, folded) weights
  std::vector<StageTime> stages;
  std::vector<std::string> guards;
  double total_ms = 0;
  std::optional<GraphReport> graphs;   // of a program on a GPU, when the report was made
  std::optional<TuningReport> tuning;  // where the option autotune_seconds asked for it, unless `cached`
};

struct Fallback {
  std::string reason;
  int64_t count = 0;
};

struct FunctionReport {
  std::string name;
  std::vector<CompileReport> variants;
  std::vector<Fallback> fallbacks;  // calls that ran eager, by reason
  int64_t hits = 0;
  int64_t misses = 0;
  std::vector<std::string> recompiles;  // which guard failed, old and new value
};

VESTA_API std::string to_string(const FunctionReport& report);
VESTA_API std::string to_string(const GraphReport& report);  // one line
VESTA_API std::string to_string(const TuningReport& report);

// Every compiled function of the process that still exists, in the order of creation.
VESTA_API std::vector<FunctionReport> reports();

}  // namespace vesta
