// Elements of memory as scalars, and back.
#pragma once

#include <bit>
#include <cstring>

#include "loops/float8.h"
#include "loops/half.h"
#include "loops/scalar.h"

namespace vesta::loops {

inline Scalar load(DType t, const void* element) {
  int64_t bits = 0;
  std::memcpy(&bits, element, static_cast<size_t>(element_size(t)));
  if (is_float8(t)) return {.f = float8_to_f32(t, static_cast<uint8_t>(bits))};
  switch (t) {
    case DType::F16: return {.f = f16_to_f32(static_cast<uint16_t>(bits))};
    case DType::BF16: return {.f = bf16_to_f32(static_cast<uint16_t>(bits))};
    case DType::F32: return {.f = std::bit_cast<float>(static_cast<uint32_t>(bits))};
    case DType::F64: return {.f = std::bit_cast<double>(bits)};
    default: return from_integer(t, bits);
  }
}

inline void store(DType t, void* element, Scalar v) {
  const auto single = static_cast<float>(v.f);
  int64_t bits = v.i;
  if (is_float8(t)) bits = f32_to_float8(t, single);
  if (t == DType::F16) bits = f32_to_f16(single);
  if (t == DType::BF16) bits = f32_to_bf16(single);
  if (t == DType::F32) bits = std::bit_cast<int32_t>(single);
  if (t == DType::F64) bits = std::bit_cast<int64_t>(v.f);
  if (t == DType::Bool) bits = v.i != 0;
  std::memcpy(element, &bits, static_cast<size_t>(element_size(t)));
}

}  // namespace vesta::loops
