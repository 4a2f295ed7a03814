// The measurements of one compiled function. Calls that look alike are measured together, apart from the others: of two
// sizes, one may gain and one may lose. Beyond kMostLooks looks, and for calls with very many arguments, all others are
// measured together. Calls that compile or run a part eager are counted for the function as a whole: if there are many,
// all calls are measured together, and run uncompiled together. The GIL guards every member.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "capture/python/wrapper/call_look.h"
#include "capture/python/wrapper/profit.h"

namespace vesta::capture {

class ProfitByLook {
 public:
  // How a call runs, and with which calls it is measured: an index of groups_, or kWhole. nullopt: that is found out
  // after the call.
  struct Turn {
    Profit::Run run = Profit::Run::NotTimed;
    std::optional<size_t> group;
  };

  void switch_off() { is_off_ = true; }
  void forget();
  // Whether a call runs the original, because such calls are slower compiled: how long it will take, in microseconds.
  // If so, it is counted.
  std::optional<double> keeps_original(const CallArguments& call) {
    if (!is_active_) return std::nullopt;
    return count_original(call);
  }
  Turn next(const CallArguments& call) {
    if (!is_active_) return {};
    return take_turn(call);
  }
  // The rest is as in Profit.
  void learn(const Turn& turn, const CallArguments& call, const Gain& gain, double us);
  std::optional<std::string> learn_original(const Turn& turn, double us);
  void drop(const Turn& turn);
  void count_in(const Turn& turn, totals::Tally* calls);

 private:
  static constexpr size_t kMostLooks = 8, kWhole = kMostLooks + 1;
  struct Group {
    std::optional<CallLook> look;  // nullopt: of all other calls
    Profit profit;
  };
  std::optional<double> count_original(const CallArguments& call);
  Turn take_turn(const CallArguments& call);
  std::optional<size_t> find(const CallArguments& call);
  Profit* of(const Turn& turn);
  void find_active();

  bool is_off_ = false;
  bool is_active_ = false;  // some Profit is
  size_t last_ = 0;         // the group that was found last
  Profit whole_;
  std::vector<Group> groups_;
};

}  // namespace vesta::capture
