// The float functions against double, in ulp, over a dense sample of all bit patterns; with VESTA_EXHAUSTIVE=1 over
// all.
#include "codegen_run.h"

#include <cstdlib>
#include <limits>
#include <random>

namespace vesta::codegen::testing {
namespace {

struct Case {
  Prim prim;
  double (*reference)(double);
  double bound;
  double near_zeros = 0;  // an absolute error that is no error: below what one ulp of the argument does there
};

// exp(-x) overflows float, and eager's sigmoid is then 0.
double sigmoid_of(double x) { return x < -88.7228 ? 0 : 1 / (1 + std::exp(-x)); }
double rsqrt_of(double x) { return 1 / std::sqrt(x); }
double lgamma_of(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Error in units of the reference's last place as a float; tiny results count in the smallest denormal.
double error_in_ulp(float ours, double exact) {
  float rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(ours)) return std::isnan(rounded) && std::isnan(ours) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(ours)) {
    // The last finite value before an overflow may round either way.
    if (rounded == ours) return 0;
    return std::fabs(exact) > 3.4028230e38 && std::fabs(exact) < 3.4028245e38 ? 1 : INFINITY;
  }
  if (exact == 0 || rounded == 0) {
    if (ours == 0) return std::signbit(ours) == std::signbit(rounded) ? 0 : INFINITY;
    return std::fabs(ours) / 0x1p-149;
  }
  double ulp = std::max(std::ldexp(1.0, std::ilogb(exact) - 23), 0x1p-149);
  return std::fabs(ours - exact) / ulp;
}

class Math : public ::testing::TestWithParam<Case> {};

TEST_P(Math, HoldsItsBound) {
  if (!available(host_target())) GTEST_SKIP() << "no generated code in this build";
  Case c = GetParam();
  const int64_t chunk = 1 << 16;
  auto k = scheduled(fmt::format(
      "kernel\nrange p0 parallel {}\nvector p0\nblock 4096\nbuffer b0 f32 read\nbuffer b1 f32 write\nstage\n"
      "  %0 = load f32 b0[p0]\n  %1 = {} f32 %0\n  store f32 b1[p0] %1\n",
      chunk, name(c.prim)));
  auto code = machine::load(*compile({{loops::print(*k), std::string(name(c.prim))}}, host_target(), {})[0].object);
  bool all = std::getenv("VESTA_EXHAUSTIVE") != nullptr;
  uint64_t step = all ? 1 : 5003;  // a prime: every exponent and every low bit pattern is met
  std::vector<float> in(chunk), out(chunk);
  double worst = 0;
  float worst_at = 0;
  for (uint64_t base = 0; base < (1ull << 32); base += step * chunk) {
    for (int64_t i = 0; i < chunk; ++i) {
      uint32_t bits = static_cast<uint32_t>(base + step * static_cast<uint64_t>(i));
      std::memcpy(&in[static_cast<size_t>(i)], &bits, 4);
    }
    if (base == 0) {
      const float special[] = {0.f,        -0.f,       INFINITY, -INFINITY, NAN,    1,          -1,      0.5f,
                               -0.5f,      88.7228f,   88.7229f, -103.97f,  -87.4f, 1e-45f,     -1e-45f, 1e-38f,
                               3.1415927f, 1.5707964f, 1e30f,    -1e30f,    0.625f, 0.9277344f, 2,       1e8f};
      std::copy(std::begin(special), std::end(special), in.begin());
    }
    void* buffers[] = {in.data(), out.data()};
    code->entry()(buffers, nullptr, nullptr, 0, chunk / 4096);
    for (size_t i = 0; i < in.size(); ++i) {
      const double exact = c.reference(static_cast<double>(in[i]));
      double e = error_in_ulp(out[i], exact);
      if (e > worst && !(std::fabs(out[i] - exact) <= c.near_zeros)) {
        worst = e;
        worst_at = in[i];
      }
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  if (std::getenv("VESTA_VERBOSE")) fmt::print("{:8} {:.3f} ulp at {}\n", name(c.prim), worst, worst_at);
  EXPECT_LE(worst, c.bound) << name(c.prim) << " at " << worst_at;
}

INSTANTIATE_TEST_SUITE_P(
    Codegen, Math,
    ::testing::Values(Case{Prim::Exp, std::exp, 1.5}, Case{Prim::Exp2, std::exp2, 1.5},
                      Case{Prim::Expm1, std::expm1, 2}, Case{Prim::Log, std::log, 1.5}, Case{Prim::Log2, std::log2, 2},
                      Case{Prim::Log10, std::log10, 2}, Case{Prim::Log1p, std::log1p, 2}, Case{Prim::Sin, std::sin, 2},
                      Case{Prim::Cos, std::cos, 2}, Case{Prim::Tanh, std::tanh, 2}, Case{Prim::Sigmoid, sigmoid_of, 3},
                      Case{Prim::Erf, std::erf, 1.5}, Case{Prim::Rsqrt, rsqrt_of, 1.5}, Case{Prim::Tan, std::tan, 4},
                      Case{Prim::Asin, std::asin, 4}, Case{Prim::Acos, std::acos, 4}, Case{Prim::Atan, std::atan, 4},
                      Case{Prim::Sinh, std::sinh, 4}, Case{Prim::Cosh, std::cosh, 4}, Case{Prim::Asinh, std::asinh, 4},
                      Case{Prim::Acosh, std::acosh, 4}, Case{Prim::Atanh, std::atanh, 4},
                      Case{Prim::Erfc, std::erfc, 4}, Case{Prim::Lgamma, lgamma_of, 1, 1e-9},
                      Case{Prim::Erfinv, loops::erfinv, 3}, Case{Prim::Digamma, loops::digamma, 1, 1e-9}),
    [](const auto& info) { return std::string(name(info.param.prim)); });

// 1 + erf(x), as in GELU, is as exact as the sum of the two.
TEST(Math, OnePlusErf) {
  if (!available(host_target())) GTEST_SKIP() << "no generated code in this build";
  const int64_t count = 1 << 16;
  auto k = scheduled(fmt::format(
      "kernel\nrange p0 parallel {}\nvector p0\nblock 4096\nbuffer b0 f32 read\nbuffer b1 f32 write\nstage\n"
      "  %0 = load f32 b0[p0]\n  %1 = const f32 1\n  %2 = erf f32 %0\n  %3 = add f32 %1 %2\n  store f32 b1[p0] %3\n",
      count));
  auto code = machine::load(*compile({{loops::print(*k), "one_plus_erf"}}, host_target(), {})[0].object);
  std::vector<float> in(count), out(count);
  const int64_t zero = count / 2;
  for (int64_t i = 0; i < count; ++i) in[static_cast<size_t>(i)] = static_cast<float>(i - zero) / 3000;
  const float special[] = {0.f, -0.f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1e-45f, -1e-45f, 3.9f, -9.2f, -9.3f};
  std::copy(std::begin(special), std::end(special), in.begin());
  void* buffers[] = {in.data(), out.data()};
  code->entry()(buffers, nullptr, nullptr, 0, count / 4096);
  for (size_t i = 0; i < in.size(); ++i) {
    const double exact = 1 + std::erf(static_cast<double>(in[i]));
    if (std::isnan(exact))
      EXPECT_TRUE(std::isnan(out[i]));
    else
      EXPECT_NEAR(out[i], exact, 2e-7) << in[i];
  }
  EXPECT_EQ(out[3], 0);  // gelu(-inf) is NaN, as in eager
  EXPECT_EQ(out[2], 2);
}

// Quotients of every size and sign, and near integers; equal bit for bit.
template <class T>
void remainders_are_exact(DType t, Prim p) {
  if (!available(host_target())) GTEST_SKIP() << "no generated code in this build";
  const int64_t count = 1 << 16;
  const std::string_view type = name(t);
  auto k = scheduled(
      fmt::format("kernel\nrange p0 parallel {1}\nvector p0\nblock 4096\nbuffer b0 {0} read\nbuffer b1 {0} read\n"
                  "buffer b2 {0} write\nstage\n  %0 = load {0} b0[p0]\n  %1 = load {0} b1[p0]\n"
                  "  %2 = {2} {0} %0 %1\n  store {0} b2[p0] %2\n",
                  type, count, name(p)));
  auto code = machine::load(*compile({{loops::print(*k), std::string(name(p))}}, host_target(), {})[0].object);
  std::mt19937_64 random(5);
  std::vector<T> a(count), b(count), out(count);
  const T special[] = {0,
                       T(-0.0),
                       1,
                       -1,
                       T(0.1),
                       3,
                       -3,
                       T(1e30),
                       std::numeric_limits<T>::infinity(),
                       -std::numeric_limits<T>::infinity(),
                       std::numeric_limits<T>::quiet_NaN(),
                       std::numeric_limits<T>::denorm_min(),
                       -std::numeric_limits<T>::min(),
                       std::numeric_limits<T>::max()};
  constexpr size_t kSpecial = std::size(special);
  for (int round = 0; round < 8; ++round) {
    for (size_t i = 0; i < a.size(); ++i) {
      std::uniform_real_distribution<double> unit(-1, 1);
      // Few vectors hold a quotient that is too large for the fast way, so that both are met.
      const double size = i % 4096 == 0 ? 120 : 22;
      b[i] = static_cast<T>(unit(random) * std::exp2(unit(random) * 20));
      a[i] = static_cast<T>(unit(random) * std::exp2(unit(random) * size));
      if (i % 3 == 0) a[i] = b[i] * static_cast<T>(static_cast<int>(random() % 5000));
      if (i % 6 == 0) a[i] = std::nextafter(a[i], i % 12 == 0 ? T(1e30) : T(-1e30));
      if (round == 0 && i < kSpecial * kSpecial) {
        a[i] = special[i / kSpecial];
        b[i] = special[i % kSpecial];
      }
    }
    void* buffers[] = {a.data(), b.data(), out.data()};
    code->entry()(buffers, nullptr, nullptr, 0, count / 4096);
    for (size_t i = 0; i < a.size(); ++i) {
      T expected = std::fmod(a[i], b[i]);
      if (p == Prim::Mod && expected != 0 && (b[i] < 0) != (expected < 0)) expected += b[i];
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(out[i])) << a[i] << " and " << b[i];
      } else {
        ASSERT_EQ(out[i], expected) << a[i] << " and " << b[i];
        ASSERT_EQ(std::signbit(out[i]), std::signbit(expected)) << a[i] << " and " << b[i];
      }
    }
  }
}

TEST(Codegen, RemaindersOfFloats) { remainders_are_exact<float>(DType::F32, Prim::Rem); }
TEST(Codegen, ModuliOfFloats) { remainders_are_exact<float>(DType::F32, Prim::Mod); }
TEST(Codegen, RemaindersOfDoubles) { remainders_are_exact<double>(DType::F64, Prim::Rem); }
TEST(Codegen, ModuliOfDoubles) { remainders_are_exact<double>(DType::F64, Prim::Mod); }

}  // namespace
}  // namespace vesta::codegen::testing
