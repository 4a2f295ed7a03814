// What a program saves for its backward pass, as plain data for reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vesta {

// A tensor that is saved and that nothing else keeps alive.
struct SavedTensorInfo {
  std::string op;      // that computes it: "aten::addmm"; empty: it is a copy of an input
  std::string source;  // the line of the program, where it is known
  std::string why;     // it is saved rather than computed again
  int64_t bytes = 0;
};

struct ComputedAgain {
  std::string op;
  std::string source;
};

// The sizes are those of the trace; the times are estimates for one backward pass.
struct ActivationReport {
  int64_t saved_bytes = 0, eager_saved_bytes = 0;
  std::optional<int64_t> limit;  // in bytes, of Options::activation_memory
  bool is_reached() const { return !limit || saved_bytes <= *limit; }
  std::vector<SavedTensorInfo> saved;
  std::vector<ComputedAgain> again;  // operators that both passes run, without views
  double load_us = 0;                // of what is saved
  double again_us = 0;               // of computing again
  double eager_load_us = 0;          // of what eager saves
};

}  // namespace vesta
