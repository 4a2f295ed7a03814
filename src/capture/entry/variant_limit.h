// The limit of variants of one function, for every entry point.
#pragma once

#include <string>
#include <string_view>

#include "vesta/options.h"

namespace vesta::capture {

// Why a call runs eager if there are `variants` already; empty: one more may be made. `difference`: how the call
// differs from a variant.
std::string why_no_more_variants(const Options& options, int64_t variants, std::string_view difference);

}  // namespace vesta::capture
