// The meaning of each primitive on C++ numbers. Generated code must agree with it, and calls it where it has no code of
// its own.
#pragma once

#include <cmath>
#include <type_traits>

#include "base/check.h"
#include "loops/scalar.h"

namespace vesta::loops {

template <class T>
T get(Scalar s) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(s.f);
  return static_cast<T>(s.i);
}

template <class T>
Scalar put(T v) {
  Scalar s;
  if constexpr (std::is_floating_point_v<T>) {
    s.f = v;
  } else {
    s.i = static_cast<int64_t>(v);  // NOLINT(bugprone-signed-char-misuse): int8 keeps its sign
  }
  return s;
}

inline Scalar truth(bool v) { return put<int64_t>(v); }

// The switches are always inlined, so that one function of them is left where the primitive is a constant.
template <class T>
[[gnu::always_inline]] inline Scalar float_compute(Prim p, T a, T b) {
  switch (p) {
    case Prim::Neg: return put(-a);
    case Prim::Abs: return put(std::fabs(a));
    case Prim::Sqrt: return put(std::sqrt(a));
    case Prim::Rsqrt: return put(T(1) / std::sqrt(a));
    case Prim::Exp: return put(std::exp(a));
    case Prim::Exp2: return put(std::exp2(a));
    case Prim::Expm1: return put(std::expm1(a));
    case Prim::Log: return put(std::log(a));
    case Prim::Log2: return put(std::log2(a));
    case Prim::Log10: return put(std::log10(a));
    case Prim::Log1p: return put(std::log1p(a));
    case Prim::Sin: return put(std::sin(a));
    case Prim::Cos: return put(std::cos(a));
    case Prim::Tan: return put(std::tan(a));
    case Prim::Asin: return put(std::asin(a));
    case Prim::Acos: return put(std::acos(a));
    case Prim::Atan: return put(std::atan(a));
    case Prim::Sinh: return put(std::sinh(a));
    case Prim::Cosh: return put(std::cosh(a));
    case Prim::Tanh: return put(std::tanh(a));
    case Prim::Asinh: return put(std::asinh(a));
    case Prim::Acosh: return put(std::acosh(a));
    case Prim::Atanh: return put(std::atanh(a));
    case Prim::Erf: return put(std::erf(a));
    case Prim::Erfc: return put(std::erfc(a));
    case Prim::Erfinv: return put(static_cast<T>(erfinv(a)));
    case Prim::Lgamma: {
      int sign;
      return put(static_cast<T>(::lgamma_r(a, &sign)));
    }
    case Prim::Digamma: return put(static_cast<T>(digamma(a)));
    case Prim::Sigmoid: return put(T(1) / (T(1) + std::exp(-a)));
    case Prim::Floor: return put(std::floor(a));
    case Prim::Ceil: return put(std::ceil(a));
    case Prim::Trunc: return put(std::trunc(a));
    case Prim::Round: return put(std::nearbyint(a));
    case Prim::IsNan: return truth(std::isnan(a));
    case Prim::IsInf: return truth(std::isinf(a));
    case Prim::SignBit: return truth(std::signbit(a));
    case Prim::Add: return put(a + b);
    case Prim::Sub: return put(a - b);
    case Prim::Mul: return put(a * b);
    case Prim::Div: return put(a / b);
    case Prim::Rem: return put(std::fmod(a, b));
    case Prim::Mod: {
      T m = std::fmod(a, b);
      return put(m != 0 && (b < 0) != (m < 0) ? m + b : m);
    }
    case Prim::Pow: return put(std::pow(a, b));
    case Prim::Atan2: return put(std::atan2(a, b));
    case Prim::Hypot: return put(std::hypot(a, b));
    case Prim::CopySign: return put(std::copysign(a, b));
    case Prim::Max: return put(std::isnan(a) ? a : a > b ? a : b);
    case Prim::Min: return put(std::isnan(a) ? a : a < b ? a : b);
    case Prim::FMax: return put(std::isnan(b) ? a : a > b ? a : b);
    case Prim::FMin: return put(std::isnan(b) ? a : a < b ? a : b);
    case Prim::Eq: return truth(a == b);
    case Prim::Ne: return truth(a != b);
    case Prim::Lt: return truth(a < b);
    case Prim::Le: return truth(a <= b);
    case Prim::Gt: return truth(a > b);
    case Prim::Ge: return truth(a >= b);
    default: break;
  }
  VESTA_CHECK(false, "primitive {} is not defined on floats", name(p));
}

template <class T>
T power(T base, T exponent) {
  using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  U r = 1, b = static_cast<U>(base);  // NOLINT(bugprone-signed-char-misuse): int8 keeps its sign
  for (auto e = static_cast<std::make_unsigned_t<T>>(exponent); e != 0; e = static_cast<decltype(e)>(e >> 1)) {
    if (e & 1) r *= b;
    b *= b;
  }
  return static_cast<T>(r);
}

template <class T>
[[gnu::always_inline]] inline Scalar integer_compute(Prim p, T a, T b) {
  using U = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
  constexpr bool is_signed = std::is_signed_v<T>;
  constexpr int bits = 8 * sizeof(T);
  auto wrap = [](U v) { return put(static_cast<T>(v)); };
  U ua = static_cast<U>(a), ub = static_cast<U>(b);  // NOLINT(bugprone-signed-char-misuse): as above
  auto quotient = [&]() -> T {
    VESTA_CHECK(b != 0, "integer division by zero in a live lane");
    if (is_signed && b == static_cast<T>(-1)) return static_cast<T>(U(0) - ua);
    return static_cast<T>(a / b);
  };
  auto remainder = [&]() -> T {
    VESTA_CHECK(b != 0, "integer division by zero in a live lane");
    if (is_signed && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  };
  switch (p) {
    case Prim::Neg: return wrap(U(0) - ua);
    case Prim::Abs: return a < 0 ? wrap(U(0) - ua) : put(a);
    case Prim::Not: return put(static_cast<T>(~a));
    case Prim::Floor:
    case Prim::Ceil:
    case Prim::Trunc:
    case Prim::Round: return put(a);
    case Prim::IsNan:
    case Prim::IsInf: return truth(false);
    case Prim::SignBit: return truth(a < 0);
    case Prim::Add: return wrap(ua + ub);
    case Prim::Sub: return wrap(ua - ub);
    case Prim::Mul: return wrap(ua * ub);
    case Prim::Div: return put(quotient());
    case Prim::FloorDiv: {
      T q = quotient();
      return put(static_cast<T>(remainder() != 0 && (a < 0) != (b < 0) ? q - 1 : q));
    }
    case Prim::Rem: return put(remainder());
    case Prim::Mod: {
      T m = remainder();
      return put(static_cast<T>(m != 0 && (b < 0) != (m < 0) ? m + b : m));
    }
    case Prim::Pow: return put(power(a, b));
    case Prim::Max:
    case Prim::FMax: return put(a > b ? a : b);
    case Prim::Min:
    case Prim::FMin: return put(a < b ? a : b);
    case Prim::And: return put(static_cast<T>(a & b));
    case Prim::Or: return put(static_cast<T>(a | b));
    case Prim::Xor: return put(static_cast<T>(a ^ b));
    case Prim::Shl: return b < 0 || b >= static_cast<T>(bits) ? put(T(0)) : wrap(ua << ub);
    case Prim::Shr:
      if (b < 0 || b >= static_cast<T>(bits)) return put(static_cast<T>(is_signed && a < 0 ? -1 : 0));
      return put(static_cast<T>(a >> b));
    case Prim::Eq: return truth(a == b);
    case Prim::Ne: return truth(a != b);
    case Prim::Lt: return truth(a < b);
    case Prim::Le: return truth(a <= b);
    case Prim::Gt: return truth(a > b);
    case Prim::Ge: return truth(a >= b);
    default: break;
  }
  VESTA_CHECK(false, "primitive {} is not defined on integers", name(p));
}

template <class T>
[[gnu::always_inline]] inline Scalar compute(Prim p, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return float_compute(p, a, b);
  } else {
    return integer_compute(p, a, b);
  }
}

}  // namespace vesta::loops
