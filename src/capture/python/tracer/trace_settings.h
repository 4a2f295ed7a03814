// What a trace is told before it starts: options of the capture, and what earlier calls of the segment had.
// Plain data; a segment owns the histories and hands the same ones to each of its traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "capture/python/object.h"
#include "capture/python/values/chosen_modules.h"

namespace vesta::capture {

// The sizes of one tensor, or one integer, in the last call. `changed`: which of them ever differed from call to call.
struct ShapeHistory {
  std::vector<int64_t> values;
  std::vector<bool> changed;
  // Adds one more call and returns `changed`. Another number of sizes starts the history anew.
  const std::vector<bool>& add(const std::vector<int64_t>& now) {
    if (values.size() != now.size()) changed.assign(now.size(), false);
    for (size_t d = 0; d < now.size() && values.size() == now.size(); ++d)
      if (values[d] != now[d]) changed[d] = true;
    values = now;
    return changed;
  }
};

// The number or text that one source had in the last call.
struct ScalarHistory {
  Object last;
  bool changed = false;
  bool specialized = false;       // a trace needed the value: the variants hold it as a constant
  std::vector<Object> constants;  // the values of these variants; their number is limited
};

// The keys are GuardRecorder::history_key of the sources.
struct ValueHistory {
  std::map<std::string, ShapeHistory> shapes;
  std::map<std::string, ScalarHistory> scalars;
};

struct TraceSettings {
  ValueHistory* history = nullptr;
  std::optional<bool> dynamic;  // the option of vesta.compile; none: sizes that change become symbolic
  bool symbols = true;          // integers and sizes may be symbolic
  bool whole = false;           // a graph break is an error: the trace takes one more constant rather than break
  bool gradients = false;       // the trace records what autograd would record
  bool says_compiling = true;   // the answer to torch.compiler.is_compiling()
  const ChosenModules* chosen = nullptr;  // nullptr: none
  // If set, calls of modules and of the program's functions end the trace: a graph with them could not be compiled, for
  // this reason.
  std::string apart;
  int stop_at = -1;  // end the trace before this instruction of the root frame, by its count; -1: run to the end
  int64_t most_instructions = 20'000'000;
  int64_t most_before_operators = 1'000'000;  // instructions before the first operator, traced in half a second
  // A trace that takes longer is given up.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  // A trace is given up when the graphs of the process do not fit into this budget (compile_budget()).
  int64_t memory = std::numeric_limits<int64_t>::max();
};

}  // namespace vesta::capture
