// The calls of one compiled function that ran eager, by reason: counted, and logged the first time. The same for every
// entry point. Callers see to it that one thread is here at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "vesta/report.h"

namespace vesta::capture {

class EagerCalls {
 public:
  // Errors that depend on data quote the data: after many reasons further ones are counted as "other reasons".
  void count(const std::string& function, const std::string& reason);
  // Where further calls of this reason are counted; nullptr if none was. It stays where it is until clear().
  int64_t* counter(const std::string& reason);
  std::vector<Fallback> list() const;
  void clear() { by_reason_.clear(); }

 private:
  std::map<std::string, int64_t> by_reason_;
};

}  // namespace vesta::capture
