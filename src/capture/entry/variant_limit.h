// How many variants a function may have: the same for every entry point.
#pragma once

#include <string>
#include <string_view>

#include "vesta/options.h"

namespace vesta::capture {

// The reason of a call that runs eager because there are `variants` already; empty: one more may be made.
// `difference`: of this call from a variant.
std::string why_no_more_variants(const Options& options, int64_t variants, std::string_view difference);

}  // namespace vesta::capture
