#include "capture/python/wrapper/profit_by_look.h"

#include <algorithm>

namespace vesta::capture {

void ProfitByLook::forget() {
  groups_.clear();
  whole_.forget();
  is_active_ = false;
  last_ = 0;
}

// nullopt: no call like this one has been seen, and there may be a group of its own for it.
std::optional<size_t> ProfitByLook::find(const CallArguments& call) {
  const auto fits = [&](const Group& g) { return !g.look || g.look->is_of(call); };
  if (last_ < groups_.size() && groups_[last_].look && fits(groups_[last_])) return last_;
  const auto at = std::ranges::find_if(groups_, fits);  // the one without a look is the last
  if (at == groups_.end()) return std::nullopt;
  return last_ = static_cast<size_t>(at - groups_.begin());
}

// nullptr: reset() came while the call ran.
Profit* ProfitByLook::of(const Turn& turn) {
  if (!turn.group) return nullptr;
  if (*turn.group == kWhole) return &whole_;
  return *turn.group < groups_.size() ? &groups_[*turn.group].profit : nullptr;
}

void ProfitByLook::find_active() {
  is_active_ = whole_.is_active() || std::ranges::any_of(groups_, [](const Group& g) { return g.profit.is_active(); });
}

std::optional<double> ProfitByLook::count_original(const CallArguments& call) {
  if (whole_.keeps_original()) return whole_.original_us();
  if (whole_.is_active()) return std::nullopt;
  const std::optional<size_t> g = find(call);
  if (!g || !groups_[*g].profit.keeps_original()) return std::nullopt;
  return groups_[*g].profit.original_us();
}

ProfitByLook::Turn ProfitByLook::take_turn(const CallArguments& call) {
  if (whole_.is_active()) return {whole_.next(), kWhole};
  const std::optional<size_t> g = find(call);
  if (!g) return {};
  return {groups_[*g].profit.next(), g};
}

void ProfitByLook::learn(const Turn& turn, const CallArguments& call, const Gain& gain, double us) {
  if (is_off_) return;
  Profit* profit = of(turn);
  const std::optional<size_t> known = profit ? std::nullopt : find(call);
  if (gain.passing && !gain.for_now && turn.run == Profit::Run::NotTimed) {
    if (gain.compiled && known) groups_[*known].profit.count_compile();
    profit = &whole_;
  } else if (profit != &whole_ && !gain.for_now) {
    whole_.count_calm();
  }
  if (!profit) {
    std::optional<size_t> g = known;
    if (!g) {
      const bool apart = call.count() <= CallLook::kMostArguments && groups_.size() < kMostLooks;
      groups_.push_back({apart ? std::optional<CallLook>(call) : std::nullopt, Profit()});
      g = groups_.size() - 1;
    }
    profit = &groups_[*g].profit;
  }
  const bool was_active = profit->is_active();
  profit->learn(turn.run, gain, us);
  if (profit->is_off()) return is_off_ = true, forget();
  if (profit->is_active() != was_active) find_active();
}

std::optional<std::string> ProfitByLook::learn_original(const Turn& turn, double us) {
  Profit* const profit = of(turn);
  if (!profit) return std::nullopt;
  std::optional<std::string> reason = profit->learn_original(us);
  find_active();
  return reason;
}

void ProfitByLook::drop(const Turn& turn) {
  if (Profit* const profit = of(turn)) profit->drop(turn.run);
}

void ProfitByLook::count_in(const Turn& turn, totals::Tally* calls) {
  if (Profit* const profit = of(turn)) profit->count_in(calls);
}

}  // namespace vesta::capture
