// Conversions to and from float8 against ATen's, bit for bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "interop/torch_types.h"
#include "loops/float8.h"

namespace vesta::loops {
namespace {

constexpr DType kTypes[] = {DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ, DType::F8E8M0FNU};

float widened(DType t, int bits) { return float8_to_f32(t, static_cast<uint8_t>(bits)); }

// As a fused conversion is written where torch's saturates (Lowering::pointwise).
uint8_t converted(DType t, float x) {
  if (t == DType::F8E4M3FN && e4m3fn_saturates() && !std::isnan(x)) x = std::clamp(x, -448.0F, 448.0F);
  return f32_to_float8(t, x);
}

// The bits of NaN are ATen's choice of kernel.
bool is_nan(DType t, uint8_t bits) { return std::isnan(float8_to_f32(t, bits)); }

void expect_equal(DType t, const std::vector<float>& x) {
  const at::Tensor from = at::from_blob(const_cast<float*>(x.data()), {static_cast<int64_t>(x.size())}, at::kFloat);
  const at::Tensor to = from.to(to_scalar_type(t));
  const auto* bits = static_cast<const uint8_t*>(to.const_data_ptr());
  int wrong = 0;
  for (size_t i = 0; i < x.size() && wrong < 5; ++i) {
    const uint8_t got = converted(t, x[i]);
    if (got == bits[i] || (is_nan(t, got) && is_nan(t, bits[i]))) continue;
    ++wrong;
    ADD_FAILURE() << name(t) << " of " << x[i] << ": " << int{got} << ", not " << int{bits[i]};
  }
}

TEST(Float8, WidensAsTorchDoes) {
  for (const DType t : kTypes) {
    at::Tensor bytes = at::arange(256, at::kInt).to(at::kByte);
    const at::Tensor wide = bytes.view(to_scalar_type(t)).to(at::kFloat);
    for (int b = 0; b < 256; ++b) {
      const float expected = wide.data_ptr<float>()[b], got = widened(t, b);
      if (std::isnan(expected) ? std::isnan(got) : std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(got))
        continue;
      ADD_FAILURE() << name(t) << " " << b << ": " << got << ", not " << expected;
    }
  }
}

TEST(Float8, RoundsAsTorchDoes) {
  std::vector<float> x;
  const at::Tensor halves = at::arange(65536, at::kInt).to(at::kShort);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor wide = halves.view(type).to(at::kFloat);
    x.insert(x.end(), wide.data_ptr<float>(), wide.data_ptr<float>() + wide.numel());
  }
  std::mt19937 random(7);
  for (int i = 0; i < 300000; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (int i = 0; i < 300000; ++i)
    x.push_back(std::ldexp(static_cast<float>(random() % 4096), int(random() % 40) - 30));
  for (const DType t : kTypes) {
    std::vector<float> all = x;
    for (int b = 0; b < 255; ++b) {
      const float middle = (widened(t, b) + widened(t, b + 1)) / 2;
      for (const float near : {std::nextafter(middle, -INFINITY), middle, std::nextafter(middle, INFINITY)})
        all.push_back(near);
    }
    expect_equal(t, all);
    // One at a time, as ATen's kernels do what is no whole vector.
    for (size_t i = 0; i < all.size(); i += 97) expect_equal(t, {all[i]});
  }
}

}  // namespace
}  // namespace vesta::loops
