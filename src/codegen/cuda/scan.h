// A running combination along the row of a team, as CUDA C++: each round of the loop over the row combines the elements
// of each thread, then those of the threads of a warp, then those of the team's warps, onto what the rounds before
// left.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace vesta::codegen {

struct TeamScan {
  uint32_t number = 0;    // of the instruction: names end in it
  std::string_view type;  // of the values
  std::string identity;
  int64_t team = 1;    // threads; up to 32, or the whole block
  int64_t each = 1;    // neighbouring elements of one thread
  std::string parity;  // 0 or 1, another one in each round
  // The values before: x<number>, an array where a thread has several, gets them combined. `u` counts a thread's.
  std::function<std::string(const std::string& u)> value;
  std::function<std::string(const std::string& a, const std::string& b)> combined;
};

// Before the loop.
std::string begin_scan(const TeamScan& s);
// In the loop, where all threads of the block come.
std::string scan_round(const TeamScan& s);

}  // namespace vesta::codegen
