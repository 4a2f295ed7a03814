// A running combination along the row of a team, as CUDA C++. Each round of the loop over the row combines the elements
// of each thread, then those of the threads of a warp, then those of the team's warps, and adds the result of the
// earlier rounds. If teams work across, the threads of a team are in different warps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace vesta::codegen {

struct TeamScan {
  uint32_t number = 0;    // of the instruction; generated names end with it
  std::string_view type;  // of the values
  std::string identity;
  int64_t team = 1;     // threads; at most 32, or the whole block, or any number of threads `columns` apart
  int64_t columns = 0;  // teams of a block that work across; 0: threads of a team are neighbours
  int64_t each = 1;     // adjacent elements per thread
  std::string parity;   // 0 or 1, alternating between rounds
  // The value before the scan. x<number> receives the combined value; it is an array if a thread has several elements,
  // and `u` is the index into it.
  std::function<std::string(const std::string& u)> value;
  std::function<std::string(const std::string& a, const std::string& b)> combined;
};

// Code before the loop.
std::string begin_scan(const TeamScan& s);
// Code in the loop. All threads of the block must execute it.
std::string scan_round(const TeamScan& s);

}  // namespace vesta::codegen
