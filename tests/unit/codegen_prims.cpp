// Every primitive and every conversion in every type, generated against interpreted, special values included.
#include "codegen_run.h"

#include <set>

namespace vesta::codegen::testing {
namespace {

const DType kTypes[] = {DType::Bool, DType::U8,  DType::I8,  DType::I16, DType::I32, DType::I64,
                        DType::U16,  DType::U32, DType::U64, DType::F32, DType::F64};

bool float_only(Prim p) {
  return (p >= Prim::Sqrt && p <= Prim::Sigmoid) || p == Prim::Atan2 || p == Prim::Hypot || p == Prim::CopySign ||
         p == Prim::NextAfter;
}
bool integer_only(Prim p) {
  return p == Prim::Not || p == Prim::FloorDiv || p == Prim::And || p == Prim::Or || p == Prim::Xor || p == Prim::Shl ||
         p == Prim::Shr;
}
bool defined(Prim p, DType t) {
  if (is_float(t)) return !integer_only(p);
  if (float_only(p)) return false;
  static const std::set<Prim> on_bool = {Prim::Not, Prim::And, Prim::Or,     Prim::Xor, Prim::Eq,
                                         Prim::Ne,  Prim::Lt,  Prim::Le,     Prim::Gt,  Prim::Ge,
                                         Prim::Max, Prim::Min, Prim::Select, Prim::Add, Prim::Mul};
  return t != DType::Bool || on_bool.contains(p);
}

std::string kernel_for(Prim p, DType t, bool vector, bool uniform) {
  std::string s = fmt::format("kernel\nsize s0 >= 1\nrange p0 parallel s0\n{}", vector ? "vector p0\nblock 64\n" : "");
  int n = arity(p);
  for (int i = 0; i < n; ++i) {
    bool cond = p == Prim::Select && i == 0;
    s += fmt::format("buffer b{} {} read\n", i, cond ? "bool" : name(t));
  }
  std::string_view out = yields_bool(p) ? "bool" : name(t);
  s += fmt::format("buffer b{} {} write\nstage\n", n, out);
  std::string in;
  for (int i = 0; i < n; ++i) {
    bool cond = p == Prim::Select && i == 0;
    s += fmt::format("  %{} = load {} b{}[{}]\n", i, cond ? "bool" : name(t), i, uniform && i == n - 1 ? "0" : "p0");
    in += fmt::format(" %{}", i);
  }
  s += fmt::format("  %{} = {} {}{}\n  store {} b{}[p0] %{}\n", n, name(p), name(t), in, out, n, n);
  return s;
}

TEST(CodegenPrims, EveryPrimitiveInEveryType) {
  const int64_t n = 333;
  for (int prim = 0; prim < kPrimCount; ++prim) {
    Prim p = static_cast<Prim>(prim);
    for (DType t : kTypes) {
      if (!defined(p, t)) continue;
      std::vector<Array> arrays;
      for (int i = 0; i < arity(p); ++i) {
        bool cond = p == Prim::Select && i == 0;
        arrays.push_back(random_array(cond ? DType::Bool : t, n, static_cast<unsigned>(3 * prim + i), true));
      }
      bool divides = p == Prim::Div || p == Prim::FloorDiv || p == Prim::Rem || p == Prim::Mod;
      if (divides && !is_float(t)) {
        Array& divisor = arrays[1];
        for (int64_t i = 0; i < n; ++i) {
          if (divisor.at(i).i == 0 || i % 7 == 0) divisor.set(i, loops::from_integer(t, i % 7 == 0 ? -1 : 3));
        }
        int64_t bits = 8 * element_size(t);
        arrays[0].set(0, loops::from_integer(t, static_cast<int64_t>(1ull << (bits - 1))));
      }
      if ((p == Prim::Shl || p == Prim::Shr) && t != DType::Bool) {
        for (int64_t i = 0; i < n; ++i) arrays[1].set(i, loops::from_integer(t, i % 70 - 2));
      }
      if (p == Prim::Pow && !is_float(t)) {
        for (int64_t i = 0; i < n; ++i) arrays[1].set(i, loops::from_integer(t, i % 9 - (is_signed(t) ? 2 : 0)));
      }
      arrays.push_back(make_array(yields_bool(p) ? DType::Bool : t, n));
      double ulps = float_only(p) || p == Prim::Pow || p == Prim::Mod ? 4 : 0;
      if (p == Prim::Sqrt || (p >= Prim::Floor && p <= Prim::Round) || p == Prim::CopySign || p == Prim::NextAfter)
        ulps = 0;
      SCOPED_TRACE(fmt::format("{} {}", name(p), name(t)));
      expect_same(kernel_for(p, t, true, false), arrays, {n}, ulps);
      expect_same(kernel_for(p, t, false, false), arrays, {n}, ulps);
    }
  }
}

TEST(CodegenPrims, EveryConversion) {
  const DType types[] = {DType::Bool, DType::U8,  DType::I8,  DType::I16,  DType::I32, DType::I64, DType::U16,
                         DType::U32,  DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};
  const int64_t n = 100;
  for (DType from : types) {
    for (DType to : types) {
      SCOPED_TRACE(fmt::format("{} to {}", name(from), name(to)));
      Array in = random_array(from, n, 11, true);
      if (is_float(from) && !is_float(to)) {
        // What the hardware makes of values that do not fit differs between its own instructions for small types.
        bool exact = to == DType::I32 || to == DType::I64 || to == DType::Bool;
        for (int64_t i = 0; i < n; ++i) {
          double v = in.at(i).f;
          if (!exact && !(v > (is_signed(to) ? -100 : 0) && v < 100))
            in.set(i, loops::from_double(from, static_cast<double>(i % 50) + 0.5));
        }
      }
      for (bool vector : {true, false}) {
        std::string kernel = fmt::format(
            "kernel\nsize s0 >= 1\nrange p0 parallel s0\n{0}buffer b0 {1} read\nbuffer b1 {2} write\nstage\n"
            "  %0 = load {1} b0[p0]\n  %1 = cast {2} %0\n  store {2} b1[p0] %1\n",
            vector ? "vector p0\nblock 64\n" : "", name(from), name(to));
        expect_same(kernel, {in, make_array(to, n)}, {n});
      }
    }
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
        "buffer b3 i16 write\nstage\n  %0 = load {0} b0[p0]\n  %1 = cast f32 %0\n  store f32 b1[p0] %1\n"
        "  %2 = const f32 1.00390625\n  %3 = mul f32 %1 %2\n  store {0} b2[p0] %3\n  %4 = bitcast i16 %0\n  store i16 "
        "b3[p0] %4\n",
        name(t));
    // The payload of a NaN need not survive.
    std::vector<Array> arrays = {in, make_array(DType::F32, 65536), make_array(t, 65536),
                                 make_array(DType::I16, 65536)};
    auto k = scheduled(kernel);
    std::vector<Array> expected = arrays;
    run_jit(*k, arrays, {});
    run_interpreter(*k, expected, {});
    for (int64_t i = 0; i < 65536; ++i) {
      if (std::isnan(in.at(i).f)) continue;
      for (size_t b = 1; b < 4; ++b)
        ASSERT_TRUE(close(arrays[b].dtype, arrays[b].at(i), expected[b].at(i), 0)) << name(t) << " " << i;
    }
  }
}

}  // namespace
}  // namespace vesta::codegen::testing
