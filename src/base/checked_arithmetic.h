// Arithmetic of sizes. What 64 bits cannot hold, and a division by zero, is a UserError.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace vesta {

inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  VESTA_USER_CHECK(!__builtin_add_overflow(a, b, &r), "size arithmetic overflows 64 bits: {} + {}", a, b);
  return r;
}

inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  VESTA_USER_CHECK(!__builtin_mul_overflow(a, b, &r), "size arithmetic overflows 64 bits: {} * {}", a, b);
  return r;
}

inline int64_t floor_div(int64_t a, int64_t b) {
  VESTA_USER_CHECK(b != 0, "division of the size {} by zero", a);
  VESTA_USER_CHECK(b != -1 || a != INT64_MIN, "size arithmetic overflows 64 bits: {} / {}", a, b);
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

}  // namespace vesta
