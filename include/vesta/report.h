// The contents of explain(): facts about a compile and the calls since then. Plain data, copied when it is asked for;
// it keeps no compiled program alive.
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
  int64_t bytes = 0;  // estimate of the bytes moved
  double estimated_us = 0;
  int64_t flops = 0;  // floating-point operations of its matrix products
};

// The name and the fields under which the cache keeps a compile's result: everything that the result depends on.
struct CacheKey {
  std::string entry;                                        // its name in the cache
  std::vector<std::pair<std::string, std::string>> fields;  // by name: graph, facts, options, target, ...
  std::vector<std::string> lines;                           // "<line 3>" in the field "graph" stands for lines[3]
};

// The CUDA graphs of a compiled program.
struct GraphReport {
  int64_t recorded = 0;  // how many recordings were made: one per stream, sizes and addresses
  int64_t kept = 0;      // recordings that exist now; the next three fields are about them
  int64_t graphs = 0;    // more than one per recording: steps between the graphs run without one
  int64_t nodes = 0;
  int64_t bytes = 0;                      // of memory
  double record_ms = 0;                   // total of all recordings
  std::map<std::string, int64_t> direct;  // steps that run outside the graphs, by reason
  std::string why_none;                   // empty: the program was recorded, or had too few calls
};

// The kernels whose schedules were measured.
struct TuningReport {
  int64_t kernels = 0;    // distinct kernels that have alternative schedules
  int64_t known = 0;      // of these: the choice was read from the cache
  int64_t measured = 0;   // of these: measured now, with all their schedules
  int64_t left = 0;       // of these: not measured for lack of time or memory
  int64_t schedules = 0;  // schedules measured
  int64_t changed = 0;    // kernels whose schedule was replaced
  double seconds = 0;     // duration of the stage
  double before_us = 0;   // one call's launches of the known and the measured kernels, with the planner's schedules
  double after_us = 0;    // and with the chosen schedules
  std::string why_none;   // why no kernel was considered; empty: kernels were considered
};

// What the option strategy="auto" predicted for a graph. Times in microseconds are those of one call, in milliseconds
// those of the compile, without the trace.
struct StrategyReport {
  std::string chosen;  // "whole", "calls" or "eager"
  int64_t expected_calls = 0;
  double eager_us = 0, calls_us = 0, whole_us = 0;
  double calls_ms = 0, whole_ms = 0;
};

struct CompileReport {
  int64_t ops_traced = 0;
  int64_t layers = 0;  // equal layers that were found, of which a few were planned; 0: each operator was planned
  int64_t ops_fused = 0;
  int64_t ops_extern = 0;
  std::vector<ExternReason> externs;
  std::vector<KernelInfo> kernels;
  int64_t distinct_kernels = 0;  // after equal kernels were merged
  int64_t cached_kernels = 0;    // of these: read from the cache
  bool cached = false;           // the whole artifact was read from the cache: nothing was planned or generated
  std::shared_ptr<const CacheKey> key;
  int64_t code_bytes = 0;
  int64_t arena_bytes = 0;  // memory for intermediates; each thread keeps it between its calls
  int64_t early_arena_bytes =
      0;  // further memory for the first part of a call, released before the call makes its large results
  int64_t packed_bytes = 0;  // prepacked constants
  // Estimates of the memory that the compile took, in bytes (Options::compile_memory); 0 where it was `cached`.
  int64_t graph_memory = 0;
  int64_t plan_memory = 0;
  int64_t kernel_memory = 0;  // LLVM's for the largest kernel that was compiled
  std::vector<StageTime> stages;
  std::vector<std::string> guards;
  double total_ms = 0;
  std::optional<GraphReport> graphs;       // for a program on a GPU: its CUDA graphs when the report was made
  std::optional<StrategyReport> strategy;  // if the option asked for a choice, and not `cached`
  std::optional<TuningReport> tuning;      // if the option autotune_seconds asked for it and not `cached`
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
  std::vector<std::string> recompiles;  // the guard that failed, with the old and the new value
  std::vector<std::string> failures;    // Vesta's own, where it then compiled the calls without symbolic sizes
};

VESTA_API std::string to_string(const FunctionReport& report);
VESTA_API std::string to_string(const GraphReport& report);  // one line
VESTA_API std::string to_string(const TuningReport& report);

// Every compiled function of the process that still exists, in the order of creation.
VESTA_API std::vector<FunctionReport> reports();

// Waits for compiles that go on in the background (Options::deadline_ms, Options::background), of all functions, but no
// longer than `seconds`; negative: for ever. The next calls use what they have made. False: one is still running.
VESTA_API bool wait(double seconds = -1);

}  // namespace vesta
