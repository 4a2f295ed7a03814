// The limit on the variants of a function, which is the same for every entry point.
#pragma once

#include <string>
#include <string_view>

#include "vesta/options.h"

namespace vesta::capture {

// The reason why a call runs eager because there are `variants` variants already; empty: one more may be made.
// `difference`: how this call differs from a variant.
std::string why_no_more_variants(const Options& options, int64_t variants, std::string_view difference);

}  // namespace vesta::capture
