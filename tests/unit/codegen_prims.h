// Kernels of one primitive or conversion each, of every type: for tests of code generators.
#pragma once

#include <set>

#include "base/prim.h"
#include "codegen_run.h"

namespace vesta::codegen::testing {

inline constexpr DType kComputedTypes[] = {DType::Bool, DType::U8,  DType::I8,  DType::I16, DType::I32, DType::I64,
                                           DType::U16,  DType::U32, DType::U64, DType::F32, DType::F64};
inline constexpr DType kStoredTypes[] = {DType::Bool, DType::U8,  DType::I8,  DType::I16, DType::I32,
                                         DType::I64,  DType::U16, DType::U32, DType::U64, DType::F16,
                                         DType::BF16, DType::F32, DType::F64};

// Kernels for GPUs have these besides.
inline constexpr DType kFloat8Types[] = {DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ,
                                         DType::F8E8M0FNU};
inline std::vector<DType> types_on_gpus() {
  std::vector<DType> types(std::begin(kStoredTypes), std::end(kStoredTypes));
  types.insert(types.end(), std::begin(kFloat8Types), std::end(kFloat8Types));
  return types;
}

inline bool float_only(Prim p) {
  return (p >= Prim::Sqrt && p <= Prim::Sigmoid) || p == Prim::Atan2 || p == Prim::Hypot || p == Prim::CopySign ||
         p == Prim::Fma;
}
inline bool integer_only(Prim p) {
  return p == Prim::Not || p == Prim::FloorDiv || p == Prim::And || p == Prim::Or || p == Prim::Xor || p == Prim::Shl ||
         p == Prim::Shr;
}
inline bool is_defined(Prim p, DType t) {
  if (p == Prim::Fma && !host_target().fma) return false;  // two roundings are not what the interpreter computes
  if (is_float(t)) return !integer_only(p);
  if (float_only(p)) return false;
  static const std::set<Prim> on_bool = {Prim::Not, Prim::And, Prim::Or,     Prim::Xor, Prim::Eq,
                                         Prim::Ne,  Prim::Lt,  Prim::Le,     Prim::Gt,  Prim::Ge,
                                         Prim::Max, Prim::Min, Prim::Select, Prim::Add, Prim::Mul};
  return t != DType::Bool || on_bool.contains(p);
}

// `how`: what the kernel's text says of its schedule.
inline std::string kernel_for(Prim p, DType t, const std::string& how) {
  std::string s = fmt::format("kernel\n{}size s0 >= 1\nrange p0 parallel s0\n", how.starts_with("threads") ? how : "");
  if (!how.starts_with("threads")) s += how;
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
    s += fmt::format("  %{0} = load {1} b{0}[p0]\n", i, cond ? "bool" : name(t));
    in += fmt::format(" %{}", i);
  }
  s += fmt::format("  %{} = {} {}{}\n  store {} b{}[p0] %{}\n", n, name(p), name(t), in, out, n, n);
  return s;
}

// For kernel_for: its operands, special values included, and the result.
inline std::vector<Array> operands(Prim p, DType t, int64_t n) {
  std::vector<Array> arrays;
  for (int i = 0; i < arity(p); ++i) {
    bool cond = p == Prim::Select && i == 0;
    arrays.push_back(
        random_array(cond ? DType::Bool : t, n, 3 * static_cast<unsigned>(p) + static_cast<unsigned>(i), true));
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
  return arrays;
}

// Within how many units in the last place.
inline double prim_ulps(Prim p) {
  if (p == Prim::Sqrt || (p >= Prim::Floor && p <= Prim::Round) || p == Prim::CopySign || p == Prim::Fma) return 0;
  return float_only(p) || p == Prim::Pow || p == Prim::Mod ? 4 : 0;
}

inline std::string conversion(DType from, DType to, const std::string& how) {
  return fmt::format(
      "kernel\n{0}size s0 >= 1\nrange p0 parallel s0\n{1}buffer b0 {2} read\nbuffer b1 {3} write\nstage\n"
      "  %0 = load {2} b0[p0]\n  %1 = cast {3} %0\n  store {3} b1[p0] %1\n",
      how.starts_with("threads") ? how : "", how.starts_with("threads") ? "" : how, name(from), name(to));
}

// The hardware's results for values that do not fit differ between its own instructions for small types.
inline Array convertible(DType from, DType to, int64_t n) {
  Array in = random_array(from, n, 11, true);
  if (!is_float(from) || is_float(to) || to == DType::I32 || to == DType::I64 || to == DType::Bool) return in;
  for (int64_t i = 0; i < n; ++i) {
    double v = in.at(i).f;
    if (!(v > (is_signed(to) ? -100 : 0) && v < 100))
      in.set(i, loops::from_double(from, static_cast<double>(i % 50) + 0.5));
  }
  return in;
}

}  // namespace vesta::codegen::testing
