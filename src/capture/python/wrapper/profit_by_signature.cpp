#include "capture/python/wrapper/profit_by_signature.h"

#include <algorithm>
#include <utility>

namespace vesta::capture {
namespace {

constexpr size_t kMostSignatures = 8, kWhole = kMostSignatures + 1;

}  // namespace

void ProfitBySignature::forget() {
  groups_.clear();
  whole_.forget();
  is_active_ = false;
  last_ = 0;
}

// nullopt: no call like this one has been seen, and there may be a group of its own for it.
std::optional<size_t> ProfitBySignature::find(const CallArguments& call) {
  const auto fits = [&](const Group& g) { return !g.signature || g.signature->is_of(call); };
  if (last_ < groups_.size() && groups_[last_].signature && fits(groups_[last_])) return last_;
  const auto at = std::ranges::find_if(groups_, fits);  // the one without a signature is the last
  if (at == groups_.end()) return std::nullopt;
  return last_ = static_cast<size_t>(at - groups_.begin());
}

size_t ProfitBySignature::find_or_add(const CallArguments& call) {
  if (const std::optional<size_t> g = find(call)) return *g;
  const bool apart = call.count() <= CallSignature::kMostArguments && groups_.size() < kMostSignatures;
  groups_.push_back({apart ? std::optional<CallSignature>(call) : std::nullopt, Profit(needed_)});
  return last_ = groups_.size() - 1;
}

// nullptr: reset() came while the call ran.
Profit* ProfitBySignature::of(const Turn& turn) {
  if (!turn.group) return nullptr;
  if (*turn.group == kWhole) return &whole_;
  return *turn.group < groups_.size() ? &groups_[*turn.group].profit : nullptr;
}

void ProfitBySignature::find_active() {
  is_active_ = whole_.is_active() || std::ranges::any_of(groups_, [](const Group& g) { return g.profit.is_active(); });
}

std::optional<double> ProfitBySignature::count_original(const CallArguments& call) {
  if (whole_.keeps_original()) return whole_.original_us();
  if (whole_.is_active()) return std::nullopt;
  const std::optional<size_t> g = find(call);
  if (!g || !groups_[*g].profit.keeps_original()) return std::nullopt;
  return groups_[*g].profit.original_us();
}

static ProfitBySignature::Turn turn_of(Profit& profit, size_t group) {
  ProfitBySignature::Turn turn{.group = group, .slower = profit.conclude()};
  if (!turn.slower) turn.run = profit.next();
  return turn;
}

ProfitBySignature::Turn ProfitBySignature::take_turn(const CallArguments& call) {
  const std::optional<size_t> g = whole_.is_active() ? kWhole : find(call);
  if (!g) return {};
  Profit& profit = *g == kWhole ? whole_ : groups_[*g].profit;
  const bool was_active = profit.is_active();
  const Turn turn = turn_of(profit, *g);
  if (profit.is_active() != was_active) find_active();
  return turn;
}

ProfitBySignature::Turn ProfitBySignature::begin(const CallArguments& call) {
  const size_t g = find_or_add(call);
  const bool was_active = groups_[g].profit.is_active();
  const Turn turn = turn_of(groups_[g].profit, g);
  if (groups_[g].profit.is_active() != was_active) find_active();
  return turn;
}

void ProfitBySignature::learn(const Turn& turn, const CallArguments& call, const Gain& gain, double us,
                              std::shared_ptr<const BackwardTime> backward) {
  if (is_off_) return;
  Profit* profit = of(turn);
  const std::optional<size_t> found = profit ? std::nullopt : find(call);
  Profit* const known = found ? &groups_[*found].profit : nullptr;
  if (gain.passing && !gain.for_now && turn.run == Run::NotTimed) {
    if (known && gain.compiled) known->when().count_compile();
    profit = &whole_;
  } else if (profit != &whole_ && !gain.for_now) {
    whole_.when().count_calm();
  }
  if (!profit) profit = known ? known : &groups_[find_or_add(call)].profit;
  const bool was_active = profit->is_active();
  profit->learn(turn.run, gain, us, std::move(backward));
  if (profit->is_off()) return is_off_ = true, forget();
  if (profit->is_active() != was_active) find_active();
}

std::optional<Comparison> ProfitBySignature::learn_original(const Turn& turn, double us,
                                                            std::shared_ptr<const BackwardTime> backward) {
  Profit* const profit = of(turn);
  if (!profit) return std::nullopt;
  const std::optional<Comparison> slower = profit->learn_original(us, std::move(backward));
  find_active();
  return slower;
}

void ProfitBySignature::drop(const Turn& turn, bool for_part) {
  if (Profit* const profit = of(turn)) profit->drop(turn.run, for_part);
}

bool ProfitBySignature::goes_before_parts(const Turn& turn) {
  const Profit* const profit = turn.run == Run::NotTimed ? nullptr : of(turn);
  return profit && profit->goes_before_parts();
}

void ProfitBySignature::count_in(const Turn& turn, totals::Tally* calls) {
  if (Profit* const profit = of(turn)) profit->count_in(calls);
}

}  // namespace vesta::capture
