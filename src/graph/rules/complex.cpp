// The formulas are those of ATen's CPU kernels (c10::complex, vec256/vec512 for complex, glibc's functions), so that
// infinities and NaN come out where eager has them.
#include "graph/rules/complex.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "graph/rules/body.h"

namespace vesta::graph {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Complex {
  Scalar re, im;
};

class ComplexArgs {
 public:
  ComplexArgs(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) : b_(&b), args_(&args), x_(x) {}
  // A real operand of an operator that computes in real numbers has the imaginary part 0 too.
  Complex operator[](size_t i) const {
    const Scalar re(*b_, x_[i].re);
    return {re, x_[i].complex() ? Scalar(*b_, x_[i].im) : re.like(0)};
  }
  // A Scalar argument that is no operand: alpha, value.
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

ScalarPair pair(Complex z) { return {z.re.ref(), z.im.ref()}; }
ScalarPair pair(Scalar x) { return {x.ref(), {}}; }

template <auto Formula>
ScalarPair complex_body(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) {
  return pair(Formula(ComplexArgs(b, args, x)));
}

Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Complex select(Scalar c, Complex a, Complex b) { return {select(c, a.re, b.re), select(c, a.im, b.im)}; }
Scalar copy_sign(Scalar magnitude, Scalar sign) { return apply(Prim::CopySign, magnitude, sign); }
Scalar magnitude(Complex z) { return apply(Prim::Hypot, z.re, z.im); }
Scalar is_zero(Complex z) { return (z.re == 0) & (z.im == 0); }

// By the larger part of the divisor (Smith).
Complex operator/(Complex a, Complex b) {
  const Scalar size_re = abs(b.re), size_im = abs(b.im);
  const Scalar by_re = size_re >= size_im;
  const Scalar large = select(by_re, b.re, b.im), small = select(by_re, b.im, b.re);
  const Scalar u = select(by_re, a.re, a.im), v = select(by_re, a.im, a.re);
  const Scalar ratio = small / large;
  const Scalar scale = 1 / (large + small * ratio);
  const Complex quotient{(u + v * ratio) * scale, select(by_re, v - u * ratio, u * ratio - v) * scale};
  return select(is_zero(b), {a.re / size_re, a.im / size_im}, quotient);
}

Complex add(ComplexArgs x) { return x[0] + x[1] * x.number("alpha"); }
Complex subtract(ComplexArgs x) { return x[0] - x[1] * x.number("alpha"); }
Complex subtract_from(ComplexArgs x) { return x[1] - x[0] * x.number("alpha"); }

Complex reciprocal(ComplexArgs x) {
  const Complex z = x[0];
  return Complex{z.re.like(1), z.re.like(0)} / z;
}

Complex exponential(ComplexArgs x) {
  const Complex z = x[0];
  // Above `top` the exponential alone would overflow although its products need not.
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

Complex logarithm(ComplexArgs x) {
  const Complex z = x[0];
  const Scalar a = abs(z.re), b = abs(z.im);
  const Scalar large = select(a > b, a, b), small = select(a > b, b, a);
  const Scalar ratio = select((large == 0) | is_inf(large), 0, small / large);
  const Scalar size = log(large) + 0.5 * log1p(ratio * ratio);
  const Scalar nan = is_nan(z.re) | is_nan(z.im);
  const Scalar infinite = is_inf(z.re) | is_inf(z.im);
  return {select(infinite, kInf, select(nan, a + b, size)), apply(Prim::Atan2, z.im, z.re)};
}

Complex square_root(ComplexArgs x) {
  const Complex z = x[0];
  const bool wide = z.re.dtype() == DType::F64;
  // A quarter of numbers whose modulus may overflow.
  const Scalar huge = (abs(z.re) > (wide ? 1e307 : 1e37)) | (abs(z.im) > (wide ? 1e307 : 1e37));
  const Scalar in = select(huge, 0.25, z.re.like(1)), out = select(huge, 2, z.re.like(1));
  const Scalar re = z.re * in, im = z.im * in;
  const Scalar t = sqrt(abs(re) * 0.5 + apply(Prim::Hypot, re, im) * 0.5);
  const Scalar other = select(t == 0, abs(im), abs(im) / (t * 2));
  const Scalar right = re >= 0;
  const Complex root{select(right, t, other) * out, copy_sign(select(right, other, t), im) * out};
  return select(is_inf(z.im), {z.re.like(kInf), z.im}, root);
}

Complex sign(ComplexArgs x) {
  const Complex z = x[0];
  const Scalar size = magnitude(z);
  return {select(size == 0, 0, z.re / size), select(size == 0, 0, z.im / size)};
}

Scalar angle(ComplexArgs x) { return apply(Prim::Atan2, x[0].im, x[0].re); }

Complex polar(ComplexArgs x) { return {x[0].re * cos(x[1].re), x[0].re * sin(x[1].re)}; }
Complex from_parts(ComplexArgs x) { return {x[0].re, x[1].re}; }

Complex square(ComplexArgs x) { return x[0] * x[0]; }

Complex add_product(ComplexArgs x) { return x[0] + x.number("value") * x[1] * x[2]; }

Scalar equal(ComplexArgs x) { return (x[0].re == x[1].re) & (x[0].im == x[1].im); }
Scalar differs(ComplexArgs x) { return (x[0].re != x[1].re) | (x[0].im != x[1].im); }
Complex choose(ComplexArgs x) { return select(x[0].re, x[1], x[2]); }

// A number as a number of type t: a real one keeps the real part.
ScalarPair converted(ScalarBuilder& b, DType t, ScalarPair x) {
  const Scalar re(b, x.re);
  if (t == DType::Bool && x.complex()) return pair((re != 0) | (Scalar(b, x.im) != 0));
  if (is_complex(t)) return {x.re, x.complex() ? x.im : re.like(0).ref()};
  return {x.re, {}};
}
ScalarPair to_copy(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) {
  return converted(b, args.dtype("dtype", args.tensor(0).dtype), x[0]);
}
ScalarPair copy(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarPair> x) {
  return converted(b, args.tensor(0).dtype, x[1]);
}

struct Row {
  const char* name;
  ComplexBody body;
};

constexpr Row kRows[] = {
    {"aten::add.Tensor", complex_body<add>},
    {"aten::add.Scalar", complex_body<add>},
    {"aten::sub.Tensor", complex_body<subtract>},
    {"aten::sub.Scalar", complex_body<subtract>},
    {"aten::rsub.Tensor", complex_body<subtract_from>},
    {"aten::rsub.Scalar", complex_body<subtract_from>},
    {"aten::mul.Tensor", complex_body<[](ComplexArgs x) { return x[0] * x[1]; }>},
    {"aten::mul.Scalar", complex_body<[](ComplexArgs x) { return x[0] * x[1]; }>},
    {"aten::div.Tensor", complex_body<[](ComplexArgs x) { return x[0] / x[1]; }>},
    {"aten::div.Scalar", complex_body<[](ComplexArgs x) { return x[0] / x[1]; }>},
    {"aten::addcmul", complex_body<add_product>},
    {"aten::neg", complex_body<[](ComplexArgs x) { return Complex{0 - x[0].re, 0 - x[0].im}; }>},
    {"aten::positive", complex_body<[](ComplexArgs x) { return x[0]; }>},
    {"aten::conj_physical", complex_body<[](ComplexArgs x) { return Complex{x[0].re, -x[0].im}; }>},
    {"aten::_conj_physical", complex_body<[](ComplexArgs x) { return Complex{x[0].re, -x[0].im}; }>},
    {"aten::reciprocal", complex_body<reciprocal>},
    {"aten::abs", complex_body<[](ComplexArgs x) { return magnitude(x[0]); }>},
    {"aten::angle", complex_body<angle>},
    {"aten::sgn", complex_body<sign>},
    {"aten::exp", complex_body<exponential>},
    {"aten::log", complex_body<logarithm>},
    {"aten::sqrt", complex_body<square_root>},
    {"aten::polar", complex_body<polar>},
    {"aten::complex", complex_body<from_parts>},
    {"aten::eq.Tensor", complex_body<equal>},
    {"aten::eq.Scalar", complex_body<equal>},
    {"aten::ne.Tensor", complex_body<differs>},
    {"aten::ne.Scalar", complex_body<differs>},
    {"aten::isnan", complex_body<[](ComplexArgs x) { return is_nan(x[0].re) | is_nan(x[0].im); }>},
    {"aten::isinf", complex_body<[](ComplexArgs x) { return is_inf(x[0].re) | is_inf(x[0].im); }>},
    {"aten::where.self", complex_body<choose>},
    {"aten::where.ScalarSelf", complex_body<choose>},
    {"aten::where.ScalarOther", complex_body<choose>},
    {"aten::masked_fill.Scalar", complex_body<[](ComplexArgs x) { return select(x[1].re, x.number("value"), x[0]); }>},
    {"aten::clone", complex_body<[](ComplexArgs x) { return x[0]; }>},
    {"aten::_to_copy", to_copy},
    {"aten::copy", copy},
    {"aten::fill.Scalar", complex_body<[](ComplexArgs x) { return x.number("value"); }>},
    {"aten::pow.Tensor_Scalar", complex_body<square>},
};

bool is_complex_arg(const Arg& a) {
  const auto* v = std::get_if<Value*>(&a);
  return (v && *v && is_complex((*v)->type.dtype)) || std::holds_alternative<std::complex<double>>(a);
}

}  // namespace

ComplexBody find_complex_body(const Node& node) {
  static const auto table = [] {
    std::unordered_map<std::string_view, ComplexBody> t;
    for (const Row& r : kRows) t.emplace(r.name, r.body);
    return t;
  }();
  const auto it = table.find(node.op->name);
  if (it == table.end()) return nullptr;
  if (it->second == complex_body<square>) {
    const Arg& exponent = node.named().get("exponent");
    const auto* e = std::get_if<Expr>(&exponent);
    const auto* f = std::get_if<double>(&exponent);
    if (!(e && e->is_constant(2)) && !(f && *f == 2)) return nullptr;
  }
  return it->second;
}

bool is_complex_node(const Node& node) {
  for (const Value* v : node.results)
    if (v && is_complex(v->type.dtype)) return true;
  return std::any_of(node.args().begin(), node.args().end(), is_complex_arg);
}

}  // namespace vesta::graph
