#include "capture/entry/compile_account.h"

#include <fmt/format.h>

#include <algorithm>

namespace vesta::capture {
namespace {

constexpr double kLeastFreeNs = 2e9, kFreeOfFirst = 2;

}  // namespace

std::string CompileAccount::why_not(double expected_ms) const {
  if (share_ < 0) return {};
  const double free = std::max(kLeastFreeNs, kFreeOfFirst * static_cast<double>(first_ns_.load()));
  const double allowed = free + share_ * static_cast<double>(run_ns_.load());
  if (static_cast<double>(again_ns_.load()) + 1e6 * expected_ms <= allowed) return {};
  return fmt::format(
      "compiles after the first one would take more than {:g} % of the time of its calls (the option recompile_share); "
      "mark what changes as dynamic, or compile ahead with vesta.warm",
      100 * share_);
}

}  // namespace vesta::capture
