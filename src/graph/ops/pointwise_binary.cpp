// Arithmetic on two operands, a tensor or a number each.
#include <cmath>

#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"
#include "graph/rules/decompose.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

constexpr uint8_t kNotBool = kAnyType & ~kBoolType;

constexpr OpRow arithmetic(const char* names, PointwiseBody f, uint8_t accepts = kAnyType,
                           uint32_t flags = kWideScalars) {
  return pointwise(names, Promote::Default, f, accepts, flags);
}

Scalar scaled(Body x, Scalar v) {
  const Arg& alpha = x.args().get("alpha");
  const bool* whether = std::get_if<bool>(&alpha);
  return is_one(alpha) || (whether && *whether) ? v : v * x.number("alpha");
}

Scalar add(Body x) {
  if (x.dtype() != DType::Bool) return x[0] + scaled(x, x[1]);
  return x[0] | (x[1] & x.number("alpha"));
}
Scalar multiply(Body x) { return x.dtype() == DType::Bool ? x[0] & x[1] : x[0] * x[1]; }

// c10::div_floor_floating.
Scalar floor_quotient(Scalar a, Scalar b) {
  const Scalar rest = apply(Prim::Rem, a, b);
  const Scalar wrong_sign = (rest != 0) & apply(Prim::Xor, b < 0, rest < 0);
  const Scalar exact = (a - rest) / b;
  const Scalar quotient = select(wrong_sign, exact - 1, exact);
  const Scalar whole = floor(quotient);
  const Scalar rounded = select((quotient - whole) > 0.5, whole + 1, whole);
  const Scalar zero = apply(Prim::CopySign, a.like(0), a / b);
  return select(b == 0, a / b, select(quotient != 0, rounded, zero));
}
Scalar floor_divide(Body x) { return x[0].real() ? floor_quotient(x[0], x[1]) : apply(Prim::FloorDiv, x[0], x[1]); }
Scalar divide_with_mode(Body x) {
  if (!x.has("rounding_mode")) return x[0] / x[1];
  if (x.args().string("rounding_mode") == "floor") return floor_divide(x);
  return x[0].real() ? trunc(x[0] / x[1]) : x[0] / x[1];
}

// ATen's special cases for a number as the exponent. They are more exact than pow, and defined for negative bases.
Scalar power_by_number(Body x) {
  const Arg& arg = x.args().get("exponent");
  const Scalar v = x[0];
  if (const auto* e = std::get_if<Expr>(&arg); e && !e->is_constant()) return pow(v, x[1]);
  const double n = x.value("exponent");
  if (v.real()) {
    if (n == 0) return v.like(1);
    if (n == 1) return v;
    if (n == 0.5) return sqrt(v);
    if (n == 2) return v * v;
    if (n == 3) return v * v * v;
    if (n == -0.5) return rsqrt(v);
    if (n == -1) return 1 / v;
    if (n == -2) return 1 / (v * v);
    return pow(v, x[1]);
  }
  Scalar result = v.like(1), square = v;
  for (auto rest = static_cast<uint64_t>(n); rest; rest >>= 1) {
    if (rest & 1) result = result * square;
    if (rest > 1) square = square * square;
  }
  return result;
}

Scalar larger(Body x) { return x.dtype() == DType::Bool ? x[0] | x[1] : maximum(x[0], x[1]); }
Scalar smaller(Body x) { return x.dtype() == DType::Bool ? x[0] & x[1] : minimum(x[0], x[1]); }
template <Prim Float>
Scalar ignoring_nan(Body x) {
  if (x[0].real()) return apply(Float, x[0], x[1]);
  return Float == Prim::FMax ? larger(x) : smaller(x);
}

Scalar log_add_exp(Body x) {
  const Scalar top = maximum(x[0], x[1]);
  return select(is_inf(x[0]) & (x[0] == x[1]), x[0], top + log1p(exp(-abs(x[0] - x[1]))));
}
Scalar log_add_exp2(Body x) {
  const Scalar top = maximum(x[0], x[1]);
  const Scalar rest = apply(Prim::Exp2, -abs(x[0] - x[1]));
  return select(is_inf(x[0]) & (x[0] == x[1]), x[0], top + log1p(rest) * (1 / std::log(2.0)));
}
Scalar x_log_y(Body x) { return select(is_nan(x[1]), x[1], select(x[0] == 0, 0, x[0] * log(x[1]))); }
Scalar x_log1p_y(Body x) { return select(is_nan(x[1]), x[1], select(x[0] == 0, 0, x[0] * log1p(x[1]))); }
Scalar heaviside(Body x) {
  if (x.dtype() == DType::Bool) return select(x[0], x[0], x[1]);
  return select(x[0] == 0, x[1], select(x[0] > 0, x[0].like(1), x[0].like(0)));
}

// Subtraction refuses a Bool operand, whatever the promoted type is.
void difference_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  for (size_t i = 0; i < 2; ++i) {
    const auto* v = std::get_if<Value*>(&args[i]);
    VESTA_USER_CHECK(!std::holds_alternative<bool>(args[i]) && !(v && (*v)->type.dtype == DType::Bool),
                     "subtraction does not support booleans");
  }
  default_shape(arithmetic("aten::sub.Tensor", nullptr, kNotBool), args, g, results);
}

void heaviside_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const auto* values = std::get_if<Value*>(&args[1]);
  VESTA_USER_CHECK(!values || !*values || args.tensor(0).dtype == (*values)->type.dtype,
                   "heaviside needs two tensors of one type");
  default_shape(arithmetic("aten::heaviside", nullptr, kNotComplex, 0), args, g, results);
}

// ATen computes rsub(a, b) as sub(b, a), so the strides of the second operand come first.
void reversed_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  std::vector<Arg> swapped(args.all().begin(), args.all().end());
  std::swap(swapped[0], swapped[1]);
  difference_shape(NodeArgs(args.schema(), swapped), g, results);
}

// Two real numbers make a complex one.
void complex_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  VESTA_USER_CHECK(args.tensor(0).dtype == args.tensor(1).dtype && args.tensor(0).dtype != DType::BF16,
                   "{} needs two tensors of one floating point type", args.schema().name);
  default_shape(arithmetic("aten::complex", nullptr, kFloatType), args, g, results);
  results[0].dtype = complex_of(results[0].dtype);
}

constexpr OpRow difference(const char* names, PointwiseBody f, ShapeRule shape) {
  return with_shape(arithmetic(names, f, kNotBool), shape);
}

constexpr PointwiseBody kSubtract = body<[](Body x) { return x[0] - scaled(x, x[1]); }>;
constexpr PointwiseBody kSubtractFrom = body<[](Body x) { return x[1] - scaled(x, x[0]); }>;
constexpr PointwiseBody kDivide = body<[](Body x) { return x[0] / x[1]; }>;
constexpr uint32_t kGuarded = kWideScalars | kIntegerByConstant;

// ATen has a kernel for integer exponents; for others it multiplies by a power of 2.
std::vector<Value*> ldexp_form(Builder& b, const Node& node) {
  Value *x = node.input(0), *exponent = node.input(1);
  if (!is_float(exponent->type.dtype)) return {};
  return finish(b, node, {b("aten::mul.Tensor", {x, b("aten::pow.Scalar", {2.0, exponent})})});
}
constexpr OpRow decomposed(OpRow row, Decompose form) {
  row.decompose = form;
  return row;
}

Complex complex_add(ComplexArgs x) { return x[0] + x[1] * x.number("alpha"); }
Complex complex_subtract(ComplexArgs x) { return x[0] - x[1] * x.number("alpha"); }
Complex complex_subtract_from(ComplexArgs x) { return x[1] - x[0] * x.number("alpha"); }

Complex complex_multiply(ComplexArgs x) { return x[0] * x[1]; }
Complex complex_divide(ComplexArgs x) { return x[0] / x[1]; }
Complex complex_square(ComplexArgs x) { return x[0] * x[0]; }
Complex complex_polar(ComplexArgs x) { return {x[0].re * cos(x[1].re), x[0].re * sin(x[1].re)}; }
Complex complex_from_parts(ComplexArgs x) { return {x[0].re, x[1].re}; }

constexpr OpRow of_parts(const char* names, ComplexBody f) {
  return with_complex(with_shape(pointwise(names, Promote::Keep, nullptr), complex_shape), f);
}

constexpr OpRow kBinaryRows[] = {
    with_complex(arithmetic("aten::add.Tensor aten::add.Scalar", body<add>), complex_body<complex_add>),
    with_complex(difference("aten::sub.Tensor aten::sub.Scalar", kSubtract, difference_shape),
                 complex_body<complex_subtract>),
    with_complex(difference("aten::rsub.Tensor", kSubtractFrom, reversed_shape), complex_body<complex_subtract_from>),
    with_complex(difference("aten::rsub.Scalar", kSubtractFrom, difference_shape), complex_body<complex_subtract_from>),
    with_complex(arithmetic("aten::mul.Tensor aten::mul.Scalar", body<multiply>), complex_body<complex_multiply>),
    with_complex(to_float("aten::div.Tensor aten::div.Scalar", kDivide, kAnyType, kWideScalars),
                 complex_body<complex_divide>),
    arithmetic("aten::div.Tensor_mode aten::div.Scalar_mode", body<divide_with_mode>, kRealNumber | kComplexType,
               kGuarded),
    arithmetic("aten::floor_divide aten::floor_divide.Scalar", body<floor_divide>, kRealNumber, kGuarded),
    arithmetic("aten::remainder.Tensor aten::remainder.Scalar aten::remainder.Scalar_Tensor", primitive<Prim::Mod>,
               kRealNumber, kIntegerByConstant),
    arithmetic("aten::fmod.Tensor aten::fmod.Scalar", primitive<Prim::Rem>, kRealNumber, kIntegerByConstant),
    arithmetic("aten::pow.Tensor_Tensor", primitive<Prim::Pow>, kNotBool, kIntegerByConstant),
    with_complex(
        arithmetic("aten::pow.Tensor_Scalar", body<power_by_number>, kAnyType, kIntegerByConstant | kComplexSquare),
        complex_body<complex_square>),
    arithmetic("aten::pow.Scalar", primitive<Prim::Pow>, kAnyType, kIntegerByConstant),
    arithmetic("aten::maximum", body<larger>, kNotComplex, 0),
    arithmetic("aten::minimum", body<smaller>, kNotComplex, 0),
    arithmetic("aten::fmax", body<ignoring_nan<Prim::FMax>>, kNotComplex, 0),
    arithmetic("aten::fmin", body<ignoring_nan<Prim::FMin>>, kNotComplex, 0),
    arithmetic("aten::hypot", primitive<Prim::Hypot>, kFloatType, 0),
    arithmetic("aten::nextafter", nullptr, kFloatType, 0),
    arithmetic("aten::logaddexp", body<log_add_exp>, kFloatType | kComplexType, 0),
    arithmetic("aten::logaddexp2", body<log_add_exp2>, kFloatType, 0),
    with_shape(arithmetic("aten::heaviside", body<heaviside>, kNotComplex, 0), heaviside_shape),
    arithmetic("aten::bitwise_and.Tensor aten::bitwise_and.Scalar aten::bitwise_and.Scalar_Tensor",
               primitive<Prim::And>, kBoolType | kIntegerType),
    arithmetic("aten::bitwise_or.Tensor aten::bitwise_or.Scalar aten::bitwise_or.Scalar_Tensor", primitive<Prim::Or>,
               kBoolType | kIntegerType),
    arithmetic("aten::bitwise_xor.Tensor aten::bitwise_xor.Scalar aten::bitwise_xor.Scalar_Tensor",
               primitive<Prim::Xor>, kBoolType | kIntegerType),
    arithmetic("aten::bitwise_left_shift.Tensor aten::bitwise_left_shift.Tensor_Scalar "
               "aten::bitwise_left_shift.Scalar_Tensor aten::__lshift__.Tensor aten::__lshift__.Scalar",
               primitive<Prim::Shl>, kIntegerType),
    arithmetic("aten::bitwise_right_shift.Tensor aten::bitwise_right_shift.Tensor_Scalar "
               "aten::bitwise_right_shift.Scalar_Tensor aten::__rshift__.Tensor aten::__rshift__.Scalar",
               primitive<Prim::Shr>, kIntegerType),
    of_parts("aten::complex", complex_body<complex_from_parts>),
    of_parts("aten::polar", complex_body<complex_polar>),
    arithmetic("aten::gcd aten::lcm", nullptr, kIntegerType),
    to_float("aten::atan2", primitive<Prim::Atan2>, kNotComplex),
    decomposed(to_float("aten::ldexp.Tensor", nullptr, kNotComplex), ldexp_form),
    to_float("aten::copysign.Tensor aten::copysign.Scalar", primitive<Prim::CopySign>, kNotComplex),
    to_float("aten::xlogy.Tensor aten::xlogy.Scalar_Self aten::xlogy.Scalar_Other", body<x_log_y>, kNotComplex),
    to_float("aten::special_xlog1py aten::special_xlog1py.self_scalar aten::special_xlog1py.other_scalar",
             body<x_log1p_y>, kNotComplex),
    to_float("aten::special_zeta aten::special_zeta.self_scalar aten::special_zeta.other_scalar "
             "aten::special_chebyshev_polynomial_t aten::special_chebyshev_polynomial_u "
             "aten::special_chebyshev_polynomial_v aten::special_chebyshev_polynomial_w "
             "aten::special_shifted_chebyshev_polynomial_t aten::special_shifted_chebyshev_polynomial_u "
             "aten::special_shifted_chebyshev_polynomial_v aten::special_shifted_chebyshev_polynomial_w "
             "aten::special_hermite_polynomial_h aten::special_hermite_polynomial_he "
             "aten::special_laguerre_polynomial_l aten::special_legendre_polynomial_p aten::igamma aten::igammac",
             nullptr, kNotComplex),
};

}  // namespace

std::span<const OpRow> binary_rows() { return kBinaryRows; }

}  // namespace vesta::graph
