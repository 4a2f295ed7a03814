// Counts the calls of one compiled function that ran eager, by reason, and logs the first call of each reason. Every
// entry point uses it. Only one thread may be here at a time: callers hold a lock, or the GIL.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "vesta/report.h"

namespace vesta::capture {

class EagerCalls {
 public:
  // A reason may quote data of the call. After many different reasons, new ones are counted as "other reasons".
  void count(const std::string& function, const std::string& reason);
  // The counter of a reason; nullptr if no call was counted for it. Valid until clear().
  int64_t* counter(const std::string& reason);
  std::vector<Fallback> list() const;
  void clear() { by_reason_.clear(); }

 private:
  std::map<std::string, int64_t> by_reason_;
};

}  // namespace vesta::capture
