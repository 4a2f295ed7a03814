// Counts the eager calls of one compiled function by reason, and logs each reason once. Every entry point uses it.
// Callers must ensure that one thread at a time uses an object.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/totals.h"
#include "vesta/options.h"
#include "vesta/report.h"

namespace vesta::capture {

class EagerCalls {
 public:
  // Errors that depend on data quote the data, so after many reasons further ones are counted as "other reasons".
  void count(const std::string& function, const std::string& reason);
  // The counter for further calls of this reason; nullptr if there was none. It stays valid until clear().
  totals::Tally* counter(const std::string& reason);
  std::vector<Fallback> list() const;
  void clear() { by_reason_.clear(); }

 private:
  std::map<std::string, totals::Tally> by_reason_;
};

// The reason why a call runs eager because there are `variants` variants already; empty: one more may be made.
// `difference`: how this call differs from a variant.
std::string why_no_more_variants(const Options& options, int64_t variants, std::string_view difference);

}  // namespace vesta::capture
