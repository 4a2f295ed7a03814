// The measurements of one compiled function, or of one segment. Calls of one signature are measured together, apart
// from the others: of two sizes, one may gain and one may lose. Beyond eight signatures, and for calls with very many
// arguments, all others are measured together. Calls that compile or run a part eager are counted for the function as a
// whole: if there are many, all calls are measured together, and run uncompiled together. The GIL guards every member.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "capture/python/wrapper/call_signature.h"
#include "capture/python/wrapper/profit.h"

namespace vesta::capture {

class ProfitBySignature {
 public:
  // How a call runs, and the group of calls that it is measured with: an index of groups_, or the index of the group of
  // all calls. nullopt: learn() finds the group after the call.
  struct Turn {
    Run run = Run::NotTimed;
    std::optional<size_t> group;
    std::optional<Comparison> slower;  // the call runs the original, as such calls do from now on
  };

  // `needed`: as in MeasureWhen.
  explicit ProfitBySignature(int needed = MeasureWhen::kNeeded) : needed_(needed), whole_(needed) {}

  void switch_off() { is_off_ = true; }
  bool is_off() const { return is_off_; }
  // Some calls are measured, or run the original.
  bool is_active() const { return is_active_; }
  void forget();
  // If such calls are slower compiled, counts the call, which runs the original, and returns the expected time in
  // microseconds, backward pass included. nullopt: the call runs compiled code.
  std::optional<double> keeps_original(const CallArguments& call) {
    if (!is_active_) return std::nullopt;
    return count_original(call);
  }
  Turn next(const CallArguments& call) {
    if (!is_active_) return {};
    return take_turn(call);
  }
  // The same for a call whose arguments will have changed when it is reported: finds at once with which it is measured.
  Turn begin(const CallArguments& call);
  // The rest is as in Profit.
  void learn(const Turn& turn, const CallArguments& call, const Gain& gain, double us,
             std::shared_ptr<const BackwardTime> backward);
  std::optional<Comparison> learn_original(const Turn& turn, double us, std::shared_ptr<const BackwardTime> backward);
  void drop(const Turn& turn, bool for_part = false);
  bool goes_before_parts(const Turn& turn);
  void count_in(const Turn& turn, totals::Tally* calls);

 private:
  struct Group {
    std::optional<CallSignature> signature;  // nullopt: of all other calls
    Profit profit;
  };
  std::optional<double> count_original(const CallArguments& call);
  Turn take_turn(const CallArguments& call);
  std::optional<size_t> find(const CallArguments& call);
  size_t find_or_add(const CallArguments& call);
  Profit* of(const Turn& turn);
  void find_active();

  int needed_;  // as in MeasureWhen
  bool is_off_ = false;
  bool is_active_ = false;  // some Profit is
  size_t last_ = 0;         // the group that was found last
  Profit whole_;
  std::vector<Group> groups_;
};

}  // namespace vesta::capture
