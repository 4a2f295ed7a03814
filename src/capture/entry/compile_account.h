// What the compiles of one function take, beside what its calls take. The first compile of a segment is free. Those
// after it may take a share of the time of the function's calls (Options::recompile_share), and before that twice the
// time of the first ones, at least 2 seconds: a new batch size is compiled at once. Any thread may call any function.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace vesta::capture {

class CompileAccount {
 public:
  // `share`: negative if there is no bound.
  explicit CompileAccount(double share = -1) : share_(share) {}
  void set_share(double share) { share_ = share; }

  // Why a segment that was compiled before cannot be compiled now, given that this takes so long; empty: it can.
  std::string why_not(double expected_ms) const;
  // A compile took so long. `again`: its segment was compiled before.
  void compiled(double ms, bool again) {
    add(again ? again_ns_ : first_ns_, ms);
    since_ns_ = since_calls_ = 0;
  }

  // For how many calls the time of this call counts, of the function's calls so far; 0: it need not be measured. Calls
  // of 20 microseconds and more are all measured, of shorter ones the first and then one in kOneIn.
  int64_t weight(int64_t calls) const {
    if (calls <= kFirst || is_long_.load(std::memory_order_relaxed)) return 1;
    return calls % kOneIn == 0 ? kOneIn : 0;
  }
  // Calls took so long, less the time of their compiles. `weight`: as above.
  void ran(double ms, int64_t weight) {
    is_long_.store(ms >= kLongMs, std::memory_order_relaxed);
    add(run_ns_, ms * static_cast<double>(weight));
    add(since_ns_, ms * static_cast<double>(weight));
    since_calls_.fetch_add(weight, std::memory_order_relaxed);
  }
  // The mean time in microseconds of the calls since the last compile; 0: there were none.
  double call_us() const {
    const int64_t calls = since_calls_;
    return calls ? static_cast<double>(since_ns_) / 1e3 / static_cast<double>(calls) : 0;
  }
  void clear() { first_ns_ = again_ns_ = run_ns_ = since_ns_ = since_calls_ = 0; }

 private:
  static constexpr int64_t kFirst = 32, kOneIn = 31;  // odd: calls of two kinds often take turns
  static constexpr double kLongMs = 0.02;
  static void add(std::atomic<int64_t>& sum, double ms) {
    sum.fetch_add(static_cast<int64_t>(ms * 1e6), std::memory_order_relaxed);
  }

  double share_;
  std::atomic<bool> is_long_{false};
  std::atomic<int64_t> first_ns_{0}, again_ns_{0}, run_ns_{0}, since_ns_{0}, since_calls_{0};
};

}  // namespace vesta::capture
