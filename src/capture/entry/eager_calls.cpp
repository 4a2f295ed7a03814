#include "capture/entry/eager_calls.h"

#include <fmt/format.h>

#include "base/events.h"
#include "base/log.h"

namespace vesta::capture {
namespace {

constexpr size_t kMostReasons = 64;
const std::string kOtherReasons = "other reasons";

}  // namespace

void EagerCalls::count(const std::string& function, const std::string& given) {
  const bool listed = by_reason_.contains(given) || by_reason_.size() < kMostReasons;
  const std::string& reason = listed ? given : kOtherReasons;
  if (events::is_on()) events::record(events::Type::Eager, function, given);
  auto at = by_reason_.find(reason);
  if (at == by_reason_.end()) {
    at = by_reason_.try_emplace(reason, totals::of(totals::ByName::Fallbacks, reason)).first;
    log::print(log::Topic::Fallbacks, "{} runs eager: {}", function, reason);
  }
  ++at->second;
}

totals::Tally* EagerCalls::counter(const std::string& reason) {
  if (reason.empty()) return nullptr;
  auto at = by_reason_.find(reason);
  if (at == by_reason_.end()) at = by_reason_.find(kOtherReasons);
  return at == by_reason_.end() ? nullptr : &at->second;
}

std::vector<Fallback> EagerCalls::list() const {
  std::vector<Fallback> out;
  for (const auto& [reason, count] : by_reason_) out.push_back({reason, count.value()});
  return out;
}

std::string why_no_more_variants(const Options& options, int64_t variants, std::string_view difference) {
  if (variants < options.variant_limit) return {};
  return fmt::format("the limit of {} variants is reached ({})", options.variant_limit, difference);
}

}  // namespace vesta::capture
