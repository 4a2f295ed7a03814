#include "loops/scalar.h"

#include <limits>

#include "loops/compute.h"
#include "loops/float8.h"
#include "loops/half.h"

namespace vesta::loops {

namespace {

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
  if (p == Prim::Fma)
    return t == DType::F32
               ? from_double(t, std::fma(static_cast<float>(a.f), static_cast<float>(b.f), static_cast<float>(c.f)))
               : from_double(t, std::fma(a.f, b.f, c.f));
  if (t == DType::Bool) {
    if (p == Prim::Not) return truth(a.i == 0);
    return truth(integer_compute<uint8_t>(p, a.i != 0, b.i != 0).i != 0);
  }
  return with_type(t, [&](auto zero) {
    using T = decltype(zero);
    return compute<T>(p, get<T>(a), get<T>(b));
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

}  // namespace vesta::loops
