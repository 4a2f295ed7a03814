// Elementwise functions of one tensor.
#include <limits>
#include <numbers>

#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr OpRow same_type(const char* names, PointwiseBody f, uint8_t accepts = kAnyType) {
  return pointwise(names, Promote::Default, f, accepts);
}
constexpr OpRow test(const char* names, PointwiseBody f, uint8_t accepts = kAnyType) {
  return pointwise(names, Promote::Compare, f, accepts);
}

template <Prim P>
ScalarRef float_only(ScalarBuilder& b, const NodeArgs&, std::span<const ScalarRef> x) {
  return is_float(x[0].dtype) ? b.un(P, x[0]) : x[0];
}

Scalar false_like(Scalar x) { return {x.builder(), x.builder().integer(DType::Bool, 0)}; }
Scalar true_like(Scalar x) { return {x.builder(), x.builder().integer(DType::Bool, 1)}; }

Scalar magnitude(Body x) { return is_signed(x.dtype()) ? abs(x[0]) : x[0]; }

Scalar sign(Body x) {
  if (x.dtype() == DType::Bool) return x[0];
  const Scalar one = x[0].like(1), zero = x[0].like(0);
  return select(x[0] > zero, one, zero) - select(x[0] < zero, one, zero);
}

Scalar nan_to_num(Body x) {
  if (!x[0].real()) return x[0];
  // The bounds are those of the stored type, which for half types is narrower than the compute type.
  const double largest = finite_range(x.args().tensor(0).dtype).high;
  const Scalar nan = x.has("nan") ? x.number("nan") : x[0].like(0);
  const Scalar high = x.has("posinf") ? x.number("posinf") : x[0].like(largest);
  const Scalar low = x.has("neginf") ? x.number("neginf") : x[0].like(-largest);
  return select(is_nan(x[0]), nan, select(x[0] == kInf, high, select(x[0] == -kInf, low, x[0])));
}

Scalar logit(Body x) {
  Scalar p = x[0];
  if (x.has("eps")) {
    const Scalar low = x.number("eps");
    const Scalar high = 1 - low;
    p = select(p < low, low, select(p > high, high, p));
  }
  return log(p / (1 - p));
}

Scalar sinc(Body x) {
  const Scalar product = x[0] * std::numbers::pi;
  return select(x[0] == 0, 1, sin(product) / product);
}

Scalar entr(Body x) {
  return select(is_nan(x[0]), x[0], select(x[0] > 0, -x[0] * log(x[0]), select(x[0] == 0, 0, x[0].like(-kInf))));
}

// Complex numbers give a result of their real type.
void magnitude_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  default_shape(same_type("aten::abs", nullptr, kRealNumber | kComplexType), args, g, results);
  results[0].dtype = real_of(results[0].dtype);
}

// For a type without infinities and NaN the answer is a constant.
Scalar finite(Body x) { return x[0].real() ? !(is_nan(x[0]) | is_inf(x[0])) : true_like(x[0]); }

void round_decimals_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  default_shape(same_type("aten::round.decimals", nullptr, kFloatType), args, g, results);
}

void angle_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  default_shape(to_float("aten::angle", nullptr), args, g, results);
  if (!is_complex(results[0].dtype)) return;
  results.assign(1, contiguous_like(results[0], results[0].sizes, real_of(results[0].dtype)));
}
Scalar identity(Body x) { return x[0]; }
Scalar angle(Body x) { return select(is_nan(x[0]), x[0], select(x[0] < 0, x[0].like(std::numbers::pi), 0)); }

Complex complex_negative(ComplexArgs x) { return {0 - x[0].re, 0 - x[0].im}; }
Complex complex_conjugate(ComplexArgs x) { return {x[0].re, -x[0].im}; }
Scalar complex_magnitude(ComplexArgs x) { return modulus(x[0]); }
Scalar complex_is_nan(ComplexArgs x) { return is_nan(x[0].re) | is_nan(x[0].im); }
Scalar complex_is_inf(ComplexArgs x) { return is_inf(x[0].re) | is_inf(x[0].im); }
Scalar complex_angle(ComplexArgs x) { return apply(Prim::Atan2, x[0].im, x[0].re); }

Complex complex_reciprocal(ComplexArgs x) {
  const Complex z = x[0];
  return Complex{z.re.like(1), z.re.like(0)} / z;
}

Complex complex_exp(ComplexArgs x) {
  const Complex z = x[0];
  // Above `top` the exponential alone overflows although its products need not.
  const double top = z.re.dtype() == DType::F64 ? 700 : 87;
  const Scalar far = z.re > top;
  const Scalar e = exp(select(far, z.re - top, z.re));
  const Scalar scale = select(far, std::exp(top), z.re.like(1));
  Complex out{e * cos(z.im) * scale, e * sin(z.im) * scale};
  const Scalar no_angle = is_nan(z.im) | is_inf(z.im);
  out.re = select((z.re == kInf) & no_angle, kInf, select((z.re == -kInf) & no_angle, 0, out.re));
  out.im = select((z.re == -kInf) & no_angle, copy_sign(z.im.like(0), z.im), out.im);
  return {out.re, select(z.im == 0, z.im, out.im)};
}

Complex complex_log(ComplexArgs x) {
  const Complex z = x[0];
  const Scalar a = abs(z.re), b = abs(z.im);
  const Scalar large = select(a > b, a, b), small = select(a > b, b, a);
  const Scalar ratio = select((large == 0) | is_inf(large), 0, small / large);
  const Scalar size = log(large) + 0.5 * log1p(ratio * ratio);
  const Scalar nan = is_nan(z.re) | is_nan(z.im);
  const Scalar infinite = is_inf(z.re) | is_inf(z.im);
  return {select(infinite, kInf, select(nan, a + b, size)), apply(Prim::Atan2, z.im, z.re)};
}

Complex complex_sqrt(ComplexArgs x) {
  const Complex z = x[0];
  const bool wide = z.re.dtype() == DType::F64;
  // Numbers whose modulus may overflow are computed from their quarter.
  const Scalar huge = (abs(z.re) > (wide ? 1e307 : 1e37)) | (abs(z.im) > (wide ? 1e307 : 1e37));
  const Scalar in = select(huge, 0.25, z.re.like(1)), out = select(huge, 2, z.re.like(1));
  const Scalar re = z.re * in, im = z.im * in;
  const Scalar t = sqrt(abs(re) * 0.5 + apply(Prim::Hypot, re, im) * 0.5);
  const Scalar other = select(t == 0, abs(im), abs(im) / (t * 2));
  const Scalar right = re >= 0;
  const Complex root{select(right, t, other) * out, copy_sign(select(right, other, t), im) * out};
  return select(is_inf(z.im), {z.re.like(kInf), z.im}, root);
}

Complex complex_sign(ComplexArgs x) {
  const Complex z = x[0];
  const Scalar size = modulus(z);
  return {select(size == 0, 0, z.re / size), select(size == 0, 0, z.im / size)};
}

constexpr OpRow kUnaryRows[] = {
    with_complex(with_shape(to_float("aten::angle", body<angle>), angle_shape), complex_body<complex_angle>),
    with_complex(with_shape(same_type("aten::conj_physical aten::_conj_physical", body<identity>), empty_like_first),
                 complex_body<complex_conjugate>),
    with_complex(with_shape(same_type("aten::abs", body<magnitude>), magnitude_shape), complex_body<complex_magnitude>),
    with_complex(same_type("aten::neg", primitive<Prim::Neg>, kRealNumber | kComplexType),
                 complex_body<complex_negative>),
    same_type("aten::sign", body<sign>, kNotComplex),
    with_complex(same_type("aten::sgn", body<sign>), complex_body<complex_sign>),
    same_type("aten::ceil", float_only<Prim::Ceil>, kRealNumber),
    same_type("aten::floor", float_only<Prim::Floor>, kRealNumber),
    same_type("aten::trunc", float_only<Prim::Trunc>, kRealNumber),
    same_type("aten::round", float_only<Prim::Round>, kRealNumber),
    call("aten::round.decimals", round_decimals_shape),
    same_type("aten::frac", body<[](Body x) { return x[0] - trunc(x[0]); }>, kFloatType),
    same_type("aten::bitwise_not", primitive<Prim::Not>, kBoolType | kIntegerType),
    with_shape(same_type("aten::nan_to_num", body<nan_to_num>), empty_like_first),
    pointwise("aten::logical_not", Promote::Logical, primitive<Prim::Not>),
    with_complex(test("aten::isnan", body<[](Body x) { return x[0].real() ? is_nan(x[0]) : false_like(x[0]); }>),
                 complex_body<complex_is_nan>),
    with_complex(test("aten::isinf", body<[](Body x) { return x[0].real() ? is_inf(x[0]) : false_like(x[0]); }>),
                 complex_body<complex_is_inf>),
    test("aten::isfinite", body<finite>),
    test("aten::isposinf", body<[](Body x) { return x[0].real() ? x[0] == kInf : false_like(x[0]); }>, kNotComplex),
    test("aten::isneginf", body<[](Body x) { return x[0].real() ? x[0] == -kInf : false_like(x[0]); }>, kNotComplex),
    test("aten::signbit", body<[](Body x) {
           if (x[0].real()) return apply(Prim::SignBit, x[0]);
           return is_signed(x.dtype()) ? x[0] < 0 : false_like(x[0]);
         }>,
         kNotComplex),
    to_float("aten::acos", primitive<Prim::Acos>),
    to_float("aten::acosh", primitive<Prim::Acosh>),
    to_float("aten::asin", primitive<Prim::Asin>),
    to_float("aten::asinh", primitive<Prim::Asinh>),
    to_float("aten::atan", primitive<Prim::Atan>),
    to_float("aten::atanh", primitive<Prim::Atanh>),
    to_float("aten::cos", primitive<Prim::Cos>),
    to_float("aten::cosh", primitive<Prim::Cosh>),
    to_float("aten::digamma", primitive<Prim::Digamma>, kNotComplex),
    to_float("aten::erf", primitive<Prim::Erf>, kNotComplex),
    to_float("aten::erfc", primitive<Prim::Erfc>, kNotComplex),
    to_float("aten::erfinv", primitive<Prim::Erfinv>, kNotComplex),
    with_complex(to_float("aten::exp", primitive<Prim::Exp>), complex_body<complex_exp>),
    to_float("aten::exp2", primitive<Prim::Exp2>),
    to_float("aten::expm1", primitive<Prim::Expm1>),
    to_float("aten::lgamma", primitive<Prim::Lgamma>, kNotComplex),
    with_complex(to_float("aten::log", primitive<Prim::Log>), complex_body<complex_log>),
    to_float("aten::log10", primitive<Prim::Log10>),
    to_float("aten::log1p", primitive<Prim::Log1p>),
    to_float("aten::log2", primitive<Prim::Log2>),
    to_float("aten::logit", body<logit>, kNotComplex),
    with_complex(to_float("aten::reciprocal", body<[](Body x) { return 1 / x[0]; }>), complex_body<complex_reciprocal>),
    to_float("aten::rsqrt", primitive<Prim::Rsqrt>),
    to_float("aten::sigmoid", primitive<Prim::Sigmoid>),
    to_float("aten::sin", primitive<Prim::Sin>),
    to_float("aten::sinc", body<sinc>),
    to_float("aten::sinh", primitive<Prim::Sinh>),
    to_float("aten::special_entr", body<entr>, kNotComplex),
    with_complex(to_float("aten::sqrt", primitive<Prim::Sqrt>), complex_body<complex_sqrt>),
    to_float("aten::tan", primitive<Prim::Tan>),
    to_float("aten::tanh", primitive<Prim::Tanh>),
    // Operators with known shapes whose functions are calls into ATen.
    to_float("aten::i0 aten::special_i0e aten::special_i1 aten::special_i1e aten::special_erfcx aten::special_ndtri "
             "aten::special_log_ndtr aten::special_bessel_j0 aten::special_bessel_j1 aten::special_airy_ai "
             "aten::special_bessel_y0 aten::special_bessel_y1 aten::special_modified_bessel_i0 "
             "aten::special_modified_bessel_i1 aten::special_modified_bessel_k0 aten::special_modified_bessel_k1 "
             "aten::special_scaled_modified_bessel_k0 aten::special_scaled_modified_bessel_k1 "
             "aten::special_spherical_bessel_j0 aten::polygamma",
             nullptr, kNotComplex),
};

}  // namespace

std::span<const OpRow> unary_rows() { return kUnaryRows; }

}  // namespace vesta::graph
