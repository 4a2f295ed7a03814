// What the first two calls of a function, which run uncompiled with the option strategy="auto", say about the worth of
// a compile. The first one alone says little: caches are cold, and libraries prepare what they need.
#pragma once

#include <cstdint>
#include <string>

#include "capture/python/wrapper/call_signature.h"

namespace vesta::capture {

class FirstCalls {
 public:
  bool are_known() const { return count_ >= kCalls; }
  void took(const CallSignature& call, double us, int64_t operators, int64_t expected_calls);
  // Microseconds of the last of these calls, or of a faster one before it, if `call` is like them; 0: it is not.
  double us_of(const CallArguments& call) const { return count_ > 0 && signature_.is_of(call) ? us_ : 0; }
  // Why a call runs uncompiled, with this many calls so far; empty: it may compile. More calls than were expected let
  // as many again be expected.
  const std::string& why_not(int64_t calls);

 private:
  static constexpr int kCalls = 2;
  void predict(int64_t expected_calls);
  int count_ = 0;
  CallSignature signature_;  // of the last one
  double us_ = 0;            // the least time of those that are like it
  int64_t operators_ = 0, expected_calls_ = 0;
  std::string why_not_;
};

}  // namespace vesta::capture
