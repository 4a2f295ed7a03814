#include "capture/entry/variant_limit.h"

#include <fmt/format.h>

namespace vesta::capture {

std::string why_no_more_variants(const Options& options, int64_t variants, std::string_view difference) {
  if (variants < options.variant_limit) return {};
  return fmt::format("the limit of {} variants is reached ({})", options.variant_limit, difference);
}

}  // namespace vesta::capture
