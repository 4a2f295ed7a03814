#include "loops/float8.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "loops/half.h"

namespace vesta::loops {

namespace {

struct Format {
  int fraction, bias;  // bits of the fraction; bias of the exponent
  uint32_t overflow;   // the bits of a float: magnitudes from here on are too large to round
  bool signed_nan;     // NaN is 0x7f with either sign; otherwise NaN is 0x80, and there is no negative zero
};

Format format_of(DType t) {
  switch (t) {
    case DType::F8E4M3FN: return {3, 7, uint32_t{1087} << 20, true};     // 480
    case DType::F8E5M2: return {2, 15, uint32_t{143} << 23, true};       // 2^16
    case DType::F8E4M3FNUZ: return {3, 8, uint32_t{135} << 23, false};   // 2^8
    case DType::F8E5M2FNUZ: return {2, 16, uint32_t{143} << 23, false};  // 2^16
    default: break;
  }
  VESTA_CHECK(false, "{} is no float8 type with a fraction", name(t));
}

uint8_t rounded(const Format& f, uint32_t magnitude) {
  const int dropped = 23 - f.fraction;
  if (magnitude < static_cast<uint32_t>(128 - f.bias)
                      << 23) {  // adding a power of two leaves the bits of a denormal at the bottom
    const uint32_t power = static_cast<uint32_t>(128 + dropped - f.bias) << 23;
    return static_cast<uint8_t>(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(power)) -
                                power);
  }
  const uint32_t odd = (magnitude >> dropped) & 1, half = (uint32_t{1} << (dropped - 1)) - 1;
  return static_cast<uint8_t>((magnitude - (static_cast<uint32_t>(127 - f.bias) << 23) + half + odd) >> dropped);
}

uint8_t f32_to_e8m0(uint32_t u) {
  const uint32_t exponent = (u >> 23) & 255;
  const bool half = (u & 0x400000) != 0, more = (u & 0x3fffff) != 0;
  return static_cast<uint8_t>(exponent + (exponent < 255 && half && (more || exponent > 0)));
}

}  // namespace

float float8_to_f32(DType t, uint8_t bits) {
  if (t == DType::F8E5M2) return f16_to_f32(static_cast<uint16_t>(bits << 8));
  if (t == DType::F8E8M0FNU) {
    if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
    return bits == 0 ? 0x1p-127F : std::bit_cast<float>(static_cast<uint32_t>(bits) << 23);
  }
  const Format f = format_of(t);
  if (f.signed_nan ? (bits & 127) == 127 : bits == 128)
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), f.signed_nan && bits > 127 ? -1.0F : 1.0F);
  const float magnitude =
      std::bit_cast<float>(static_cast<uint32_t>(bits & 127) << (23 - f.fraction)) * std::ldexp(1.0F, 127 - f.bias);
  return bits > 127 ? -magnitude : magnitude;
}

uint8_t f32_to_float8(DType t, float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), magnitude = u & 0x7fffffff;
  if (t == DType::F8E8M0FNU) return f32_to_e8m0(u);
  const Format f = format_of(t);
  const auto sign = static_cast<uint8_t>((u >> 24) & 128);
  if (magnitude >= f.overflow) {
    if (!f.signed_nan) return 128;
    return sign | (t == DType::F8E5M2 && magnitude <= 0x7f800000 ? 0x7c : 0x7f);
  }
  const uint8_t r = rounded(f, magnitude);
  return r == 0 && !f.signed_nan ? r : sign | r;
}

bool e4m3fn_saturates() { return VESTA_E4M3FN_SATURATES; }

}  // namespace vesta::loops
