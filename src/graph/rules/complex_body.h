// Formulas for pointwise bodies of complex numbers over pairs of real scalars, beside the real bodies of body.h.
//
// The formulas are those of ATen's CPU kernels (c10::complex, vec256/vec512 for complex, glibc's functions), so
// infinities and NaN come out as eager's. A formula may not use a primitive on a complex type: loops and code
// generators know real types only.
#pragma once

#include "graph/rules/body.h"
#include "graph/rules/complex.h"

namespace vesta::graph {

struct Complex {
  Scalar re, im;
};

class ComplexArgs {
 public:
  ComplexArgs(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) : b_(&b), args_(&args), x_(x) {}
  // A real operand of an operator that computes in real numbers gets the imaginary part 0, too.
  Complex operator[](size_t i) const {
    const Scalar re(*b_, x_[i].re);
    return {re, x_[i].complex() ? Scalar(*b_, x_[i].im) : re.like(0)};
  }
  // A Scalar argument that is not an operand: alpha, value.
  Complex number(std::string_view name) const {
    const Scalar like = (*this)[0].re;
    const Arg& a = args_->get(name);
    if (const auto* c = std::get_if<std::complex<double>>(&a)) return {like.like(c->real()), like.like(c->imag())};
    const Body plain(*b_, *args_, std::span(&x_[0].re, 1));
    return {plain.number(name), like.like(0)};
  }

 private:
  ScalarBuilder* b_;
  const NodeArgs* args_;
  std::span<const ScalarPair> x_;
};

inline ScalarPair pair(Complex z) { return {z.re.ref(), z.im.ref()}; }
inline ScalarPair pair(Scalar x) { return {x.ref(), {}}; }

template <auto Formula>
ScalarPair complex_body(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) {
  return pair(Formula(ComplexArgs(b, args, x)));
}

inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
inline Complex select(Scalar c, Complex a, Complex b) { return {select(c, a.re, b.re), select(c, a.im, b.im)}; }
inline Scalar copy_sign(Scalar magnitude, Scalar sign) { return apply(Prim::CopySign, magnitude, sign); }
inline Scalar modulus(Complex z) { return apply(Prim::Hypot, z.re, z.im); }
inline Scalar is_zero(Complex z) { return (z.re == 0) & (z.im == 0); }

// Scales by the larger part of the divisor (Smith's method).
inline Complex operator/(Complex a, Complex b) {
  const Scalar size_re = abs(b.re), size_im = abs(b.im);
  const Scalar by_re = size_re >= size_im;
  const Scalar large = select(by_re, b.re, b.im), small = select(by_re, b.im, b.re);
  const Scalar u = select(by_re, a.re, a.im), v = select(by_re, a.im, a.re);
  const Scalar ratio = small / large;
  const Scalar scale = 1 / (large + small * ratio);
  const Complex quotient{(u + v * ratio) * scale, select(by_re, v - u * ratio, u * ratio - v) * scale};
  return select(is_zero(b), {a.re / size_re, a.im / size_im}, quotient);
}

// The row with a body for complex numbers.
constexpr OpRow with_complex(OpRow row, ComplexBody f) {
  row.complex = f;
  return row;
}

}  // namespace vesta::graph
