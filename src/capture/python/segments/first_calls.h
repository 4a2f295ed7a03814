// What the first two calls of a function, which run uncompiled with the option strategy="auto", say about the worth of
// a compile. The first one alone says little: caches are cold, and libraries prepare what they need.
#pragma once

#include <cstdint>
#include <string>

namespace vesta::capture {

class FirstCalls {
 public:
  bool are_known() const { return count_ >= kCalls; }
  void took(double us, int64_t operators, int64_t expected_calls);
  // Why a call runs uncompiled, with this many calls so far; empty: it may compile. More calls than were expected let
  // as many again be expected.
  const std::string& why_not(int64_t calls);

 private:
  static constexpr int kCalls = 2;
  void predict(int64_t expected_calls);
  int count_ = 0;
  double us_ = 0;  // the least time
  int64_t operators_ = 0, expected_calls_ = 0;
  std::string why_not_;
};

}  // namespace vesta::capture
