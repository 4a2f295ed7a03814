// Every primitive and every conversion in every type, generated against interpreted, special values included.
#include "codegen_prims.h"

#include "codegen_run.h"

namespace vesta::codegen::testing {
namespace {

constexpr const char* kVectors = "vector p0\nblock 64\n";

TEST(CodegenPrims, EveryPrimitiveInEveryType) {
  const int64_t n = 333;
  for (int prim = 0; prim < kPrimCount; ++prim) {
    Prim p = static_cast<Prim>(prim);
    for (DType t : kComputedTypes) {
      if (!is_defined(p, t)) continue;
      const std::vector<Array> arrays = operands(p, t, n);
      SCOPED_TRACE(fmt::format("{} {}", name(p), name(t)));
      expect_same(kernel_for(p, t, kVectors), arrays, {n}, prim_ulps(p));
      expect_same(kernel_for(p, t, ""), arrays, {n}, prim_ulps(p));
    }
  }
}

TEST(CodegenPrims, EveryConversion) {
  for (DType from : kStoredTypes)
    for (DType to : kStoredTypes) {
      SCOPED_TRACE(fmt::format("{} to {}", name(from), name(to)));
      for (const char* how : {kVectors, ""})
        expect_same(conversion(from, to, how), {convertible(from, to, 100), make_array(to, 100)}, {100});
    }
}

TEST(CodegenPrims, HalfTypesRoundTripAllValues) {
  for (DType t : {DType::F16, DType::BF16}) {
    Array in = make_array(t, 65536);
    for (uint32_t i = 0; i < 65536; ++i) {
      auto bits = static_cast<uint16_t>(i);
      std::memcpy(in.bytes.data() + 2 * i, &bits, 2);
    }
    std::string kernel = fmt::format(
        "kernel\nrange p0 parallel 65536\nvector p0\nblock 4096\nbuffer b0 {0} read\nbuffer b1 f32 write\nbuffer b2 "
        "{0} write\n"
        "buffer b3 {0} write\nstage\n  %0 = load {0} b0[p0]\n  %1 = cast f32 %0\n  store f32 b1[p0] %1\n"
        "  %2 = const f32 1.00390625\n  %3 = mul f32 %1 %2\n  store {0} b2[p0] %3\n  store {0} b3[p0] %0\n",
        name(t));
    // The payload of a NaN need not survive.
    std::vector<Array> arrays = {in, make_array(DType::F32, 65536), make_array(t, 65536), make_array(t, 65536)};
    auto k = scheduled(kernel);
    std::vector<Array> expected = arrays;
    run_jit(*k, arrays, {});
    run_interpreter(*k, expected, {});
    for (int64_t i = 0; i < 65536; ++i) {
      if (std::isnan(in.at(i).f)) continue;
      for (size_t b = 1; b < 4; ++b)
        ASSERT_TRUE(close(arrays[b].dtype, arrays[b].at(i), expected[b].at(i), 0)) << name(t) << " " << i;
      ASSERT_EQ(std::memcmp(arrays[3].bytes.data() + 2 * i, in.bytes.data() + 2 * i, 2), 0) << name(t) << " " << i;
    }
  }
}

}  // namespace
}  // namespace vesta::codegen::testing
