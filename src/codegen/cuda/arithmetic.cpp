#include "codegen/cuda/arithmetic.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace vesta::codegen {

std::string_view stored_type(DType t) {
  switch (t) {
    case DType::Bool:
    case DType::F8E4M3FN:
    case DType::F8E5M2:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0FNU:
    case DType::U8: return "u8";
    case DType::I8: return "signed char";
    case DType::I16: return "short";
    case DType::I32: return "int";
    case DType::I64: return "i64";
    case DType::U16:
    case DType::F16:
    case DType::BF16: return "u16";
    case DType::U32: return "u32";
    case DType::U64: return "u64";
    case DType::F32: return "float";
    case DType::F64: return "double";
    default: break;
  }
  VESTA_CHECK(false, "a kernel with elements of type {}", name(t));
}

bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

std::string_view value_type_name(DType t) {
  if (t == DType::Bool) return "bool";
  if (is_narrow(t)) return "float";
  return stored_type(t);
}

std::string literal(double v, DType t) {
  if (t == DType::F64) return fmt::format("bits_double(0x{:016x}ull)", std::bit_cast<uint64_t>(v));
  const float f = static_cast<float>(v);
  if (f == static_cast<float>(static_cast<int>(std::clamp(f, -1e6F, 1e6F)))) return fmt::format("{:.1f}f", f);
  return fmt::format("bits_float(0x{:08x}u)", std::bit_cast<uint32_t>(f));
}

std::string loaded(DType t, const std::string& element) {
  if (t == DType::Bool) return element + " != 0";
  return is_narrow(t) ? fmt::format("from_{}({})", name(t), element) : element;
}

std::string to_store(DType t, const std::string& x) {
  if (t == DType::Bool) return "(u8)(" + x + ")";
  return is_narrow(t) ? fmt::format("to_{}({})", name(t), x) : fmt::format("({}){}", stored_type(t), x);
}

std::string cast_text(DType from, DType to, const std::string& x) {
  if (to == DType::Bool) return x + " != 0";
  if (is_narrow(to)) return fmt::format("from_{0}(to_{0}((float){1}))", name(to), x);
  if (from == to) return x;
  return fmt::format("({}){}", value_type_name(to), x);
}

std::string arithmetic(const char* op, DType t, const std::string& a, const std::string& b) {
  if (is_float(t)) return fmt::format("{} {} {}", a, op, b);
  if (t == DType::Bool) return fmt::format("{} {} {}", a, *op == '*' ? "&&" : "||", b);
  const std::string_view wide = element_size(t) == 8 ? "u64" : "u32";
  return fmt::format("({})(({}){} {} ({}){})", stored_type(t), wide, a, op, wide, b);
}

namespace {

// Functions of CUDA's library that have the names of primitives. Their variants for float end with an f.
constexpr Prim kLibrary[] = {Prim::Sqrt,  Prim::Exp,   Prim::Exp2,    Prim::Expm1, Prim::Log,    Prim::Log2,
                             Prim::Log10, Prim::Log1p, Prim::Sin,     Prim::Cos,   Prim::Tan,    Prim::Asin,
                             Prim::Acos,  Prim::Atan,  Prim::Sinh,    Prim::Cosh,  Prim::Tanh,   Prim::Asinh,
                             Prim::Acosh, Prim::Atanh, Prim::Erf,     Prim::Erfc,  Prim::Erfinv, Prim::Lgamma,
                             Prim::Atan2, Prim::Hypot, Prim::CopySign};

const char* infinity(bool wide) { return wide ? "bits_double(0x7ff0000000000000ull)" : "bits_float(0x7f800000u)"; }

}  // namespace

std::string primitive_text(Prim prim, DType t, const std::string& a, const std::string& b, const std::string& c) {
  const bool real = is_float(t), wide = t == DType::F64, truth = t == DType::Bool;
  const std::string_view type = value_type_name(t);
  const auto call = [&](std::string_view f) {
    return fmt::format("{}{}({}{}{})", f, wide ? "" : "f", a, b.empty() ? "" : ", ", b);
  };
  const auto of = [&](const char* f) { return fmt::format("{}<{}>({}, {})", f, type, a, b); };
  const auto infix = [&](const char* op) { return fmt::format("{} {} {}", a, op, b); };
  const auto integer = [&](const char* op) { return fmt::format("({})({} {} {})", type, a, op, b); };
  const auto one = literal(1, t);
  if (std::ranges::find(kLibrary, prim) != std::end(kLibrary)) return call(name(prim));
  switch (prim) {
    case Prim::Neg: return real ? "-(" + a + ")" : arithmetic("-", t, "0", a);
    case Prim::Abs:
      if (real) return call("fabs");
      if (!is_signed(t) || truth) return a;
      return fmt::format("{} < 0 ? {} : {}", a, arithmetic("-", t, "0", a), a);
    case Prim::Not: return truth ? "!" + a : fmt::format("({})~{}", type, a);
    case Prim::Rsqrt: return call("rsqrt");
    case Prim::Digamma: return fmt::format("({})v_digamma({})", type, a);
    case Prim::Sigmoid: return fmt::format("{} / ({} + {}(-({})))", one, one, wide ? "exp" : "expf", a);
    case Prim::Floor: return real ? call("floor") : a;
    case Prim::Ceil: return real ? call("ceil") : a;
    case Prim::Trunc: return real ? call("trunc") : a;
    case Prim::Round: return real ? call("nearbyint") : a;
    case Prim::IsNan: return real ? fmt::format("{} != {}", a, a) : "false";
    case Prim::IsInf: return real ? fmt::format("fabs{}({}) == {}", wide ? "" : "f", a, infinity(wide)) : "false";
    case Prim::SignBit:
      if (!real) return is_signed(t) && !truth ? a + " < 0" : "false";
      return wide ? fmt::format("(double_bits({}) >> 63) != 0", a) : fmt::format("(float_bits({}) >> 31) != 0", a);
    case Prim::Add: return arithmetic("+", t, a, b);
    case Prim::Sub: return arithmetic("-", t, a, b);
    case Prim::Mul: return arithmetic("*", t, a, b);
    case Prim::Div: return real ? infix("/") : of("int_div");
    case Prim::FloorDiv: return of("floor_div");
    case Prim::Rem: return real ? call("fmod") : of("int_rem");
    case Prim::Mod: return real ? fmt::format("float_mod<{}>({}, {}, {})", type, a, b, call("fmod")) : of("floor_mod");
    case Prim::Pow: return real ? call("pow") : of("power");
    case Prim::Max: return truth ? infix("||") : of("v_max");
    case Prim::Min: return truth ? infix("&&") : of("v_min");
    case Prim::FMax: return truth ? infix("||") : of("v_fmax");
    case Prim::FMin: return truth ? infix("&&") : of("v_fmin");
    case Prim::And: return truth ? infix("&&") : integer("&");
    case Prim::Or: return truth ? infix("||") : integer("|");
    case Prim::Xor: return truth ? infix("!=") : integer("^");
    case Prim::Shl: return of("shift_left");
    case Prim::Shr: return of("shift_right");
    case Prim::Eq: return infix("==");
    case Prim::Ne: return infix("!=");
    case Prim::Lt: return infix("<");
    case Prim::Le: return infix("<=");
    case Prim::Gt: return infix(">");
    case Prim::Ge: return infix(">=");
    case Prim::Select: return fmt::format("{} ? {} : {}", a, b, c);
    case Prim::Fma: return fmt::format("fma{}({}, {}, {})", wide ? "" : "f", a, b, c);
    default: break;
  }
  VESTA_CHECK(false, "the primitive {} has no CUDA code", name(prim));
}

}  // namespace vesta::codegen
