#include "loops/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/check.h"
#include "loops/float8.h"
#include "loops/half.h"

namespace vesta::loops {

namespace {

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

Scalar truth(bool v) { return put<int64_t>(v); }

template <class T>
Scalar float_compute(Prim p, T a, T b, T c) {
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
    case Prim::NextAfter: return put(std::nextafter(a, b));
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
    case Prim::Fma: return put(std::fma(a, b, c));
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
Scalar integer_compute(Prim p, T a, T b, T c) {
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
    case Prim::Fma: return wrap(ua * ub + static_cast<U>(c));
    default: break;
  }
  VESTA_CHECK(false, "primitive {} is not defined on integers", name(p));
}

Scalar bool_compute(Prim p, bool a, bool b) {
  switch (p) {
    case Prim::Not: return truth(!a);
    case Prim::And:
    case Prim::Mul:
    case Prim::Min:
    case Prim::FMin: return truth(a && b);
    case Prim::Or:
    case Prim::Add:
    case Prim::Max:
    case Prim::FMax: return truth(a || b);
    case Prim::Xor:
    case Prim::Ne: return truth(a != b);
    case Prim::Eq: return truth(a == b);
    case Prim::Lt: return truth(!a && b);
    case Prim::Le: return truth(!a || b);
    case Prim::Gt: return truth(a && !b);
    case Prim::Ge: return truth(a || !b);
    case Prim::Abs: return truth(a);
    case Prim::IsNan:
    case Prim::IsInf:
    case Prim::SignBit: return truth(false);
    default: break;
  }
  VESTA_CHECK(false, "primitive {} is not defined on bool", name(p));
}

template <class F>
Scalar with_type(DType t, F&& f) {
  switch (t) {
    case DType::U8: return f(uint8_t{});
    case DType::I8: return f(int8_t{});
    case DType::I16: return f(int16_t{});
    case DType::I32: return f(int32_t{});
    case DType::I64: return f(int64_t{});
    case DType::U16: return f(uint16_t{});
    case DType::U32: return f(uint32_t{});
    case DType::U64: return f(uint64_t{});
    case DType::F32: return f(float{});
    case DType::F64: return f(double{});
    default: break;
  }
  if (is_narrow(t)) return f(float{});
  VESTA_CHECK(false, "no scalar of type {}", name(t));
}

// As cvttss2si and similar instructions: the most negative integer if the value does not fit.
int32_t hardware_i32(double v) {
  return v > -2147483649.0 && v < 2147483648.0 ? static_cast<int32_t>(v) : std::numeric_limits<int32_t>::min();
}
int64_t hardware_i64(double v) {
  return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v) : std::numeric_limits<int64_t>::min();
}

Scalar integer_from_float(DType to, double v) {
  switch (to) {
    case DType::I8:
    case DType::I16:
    case DType::U16:
    case DType::I32: return from_integer(to, hardware_i32(v));
    case DType::U64: {
      if (v < 0x1p63) return from_integer(to, hardware_i64(v));
      return from_integer(to, static_cast<int64_t>(static_cast<uint64_t>(hardware_i64(v - 0x1p63)) ^ (1ull << 63)));
    }
    default: return from_integer(to, hardware_i64(v));
  }
}

}  // namespace

Scalar from_integer(DType t, int64_t v) {
  if (t == DType::Bool) return truth(v != 0);
  return with_type(t, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      return cast(DType::I64, t, put(v));
    } else {
      return put(static_cast<T>(v));
    }
  });
}

Scalar from_double(DType t, double v) { return cast(DType::F64, t, put(v)); }

Scalar identity(ReduceOp op, DType t) {
  double infinity = std::numeric_limits<double>::infinity();
  bool low = op == ReduceOp::Max || op == ReduceOp::ArgMax;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Any: return from_integer(t, 0);
    case ReduceOp::Prod:
    case ReduceOp::All: return from_integer(t, 1);
    default: break;
  }
  if (is_float(t)) return from_double(t, low ? -infinity : infinity);
  if (t == DType::Bool) return from_integer(t, low ? 0 : 1);
  int bits = static_cast<int>(8 * element_size(t));
  if (!is_signed(t)) return from_integer(t, low ? 0 : -1);
  int64_t smallest = static_cast<int64_t>(~0ull << (bits - 1));
  return from_integer(t, low ? smallest : ~smallest);
}

Scalar compute(Prim p, DType t, Scalar a, Scalar b, Scalar c) {
  if (p == Prim::Select) return a.i ? b : c;
  if (t == DType::Bool) return bool_compute(p, a.i != 0, b.i != 0);
  return with_type(t, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<T>) {
      return float_compute<T>(p, get<T>(a), get<T>(b), get<T>(c));
    } else {
      return integer_compute<T>(p, get<T>(a), get<T>(b), get<T>(c));
    }
  });
}

Scalar cast(DType from, DType to, Scalar v) {
  if (is_float(from)) {
    if (is_float8(to)) return put(float8_to_f32(to, f32_to_float8(to, static_cast<float>(v.f))));
    switch (to) {
      case DType::Bool: return truth(v.f != 0);
      case DType::F64: return v;
      case DType::F32: return put(static_cast<float>(v.f));
      case DType::F16: return put(f16_to_f32(f32_to_f16(static_cast<float>(v.f))));
      case DType::BF16: return put(bf16_to_f32(f32_to_bf16(static_cast<float>(v.f))));
      default: return integer_from_float(to, v.f);
    }
  }
  if (!is_float(to)) return from_integer(to, v.i);
  bool unsigned_wide = from == DType::U64;
  if (to == DType::F64)
    return put(unsigned_wide ? static_cast<double>(static_cast<uint64_t>(v.i)) : static_cast<double>(v.i));
  float single = unsigned_wide ? static_cast<float>(static_cast<uint64_t>(v.i)) : static_cast<float>(v.i);
  return cast(DType::F32, to, put(single));
}

Scalar bitcast(DType from, DType to, Scalar v) {
  VESTA_CHECK(element_size(from) == element_size(to), "bitcast from {} to {}", name(from), name(to));
  alignas(8) unsigned char bytes[8] = {};
  store(from, bytes, v);
  return load(to, bytes);
}

Scalar load(DType t, const void* element) {
  if (is_float8(t)) return put(float8_to_f32(t, *static_cast<const uint8_t*>(element)));
  uint16_t half;
  switch (t) {
    case DType::Bool: return truth(*static_cast<const uint8_t*>(element) != 0);
    case DType::F16: std::memcpy(&half, element, 2); return put(f16_to_f32(half));
    case DType::BF16: std::memcpy(&half, element, 2); return put(bf16_to_f32(half));
    default: break;
  }
  return with_type(t, [&](auto v) {
    std::memcpy(&v, element, sizeof v);
    return put(v);
  });
}

void store(DType t, void* element, Scalar v) {
  if (is_float8(t)) {
    *static_cast<uint8_t*>(element) = f32_to_float8(t, static_cast<float>(v.f));
    return;
  }
  uint16_t half;
  switch (t) {
    case DType::Bool: *static_cast<uint8_t*>(element) = v.i != 0; return;
    case DType::F16:
      half = f32_to_f16(static_cast<float>(v.f));
      std::memcpy(element, &half, 2);
      return;
    case DType::BF16:
      half = f32_to_bf16(static_cast<float>(v.f));
      std::memcpy(element, &half, 2);
      return;
    default: break;
  }
  with_type(t, [&](auto zero) {
    auto typed = get<decltype(zero)>(v);
    std::memcpy(element, &typed, sizeof typed);
    return Scalar{};
  });
}

}  // namespace vesta::loops
