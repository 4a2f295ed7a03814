// What the first call of a function, which runs uncompiled with the option strategy="auto", says about the worth of a
// compile.
#pragma once

#include <cstdint>
#include <string>

namespace vesta::capture {

class FirstCall {
 public:
  bool is_known() const { return us_ > 0; }
  void took(double us, int64_t operators, int64_t expected_calls);
  // Why a call runs uncompiled, with this many calls so far; empty: it may compile. More calls than were expected let
  // as many again be expected.
  const std::string& why_not(int64_t calls);

 private:
  void predict(int64_t expected_calls);
  double us_ = 0;
  int64_t operators_ = 0, expected_calls_ = 0;
  std::string why_not_;
};

}  // namespace vesta::capture
