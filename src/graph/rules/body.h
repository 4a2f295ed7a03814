// Formulas for pointwise bodies: `body<[](Body x) { return x[0] * sigmoid(x[0]); }>` is a PointwiseBody.
//
// A Scalar is a value of one compute type. A C++ number next to a Scalar becomes a constant of that Scalar's type. A
// body may not look at memory or at other elements.
#pragma once

#include "graph/graph.h"

namespace vesta::graph {

class Scalar {
 public:
  Scalar(ScalarBuilder& b, ScalarRef ref) : b_(&b), ref_(ref) {}
  DType dtype() const { return ref_.dtype; }
  ScalarRef ref() const { return ref_; }
  ScalarBuilder& builder() const { return *b_; }
  Scalar like(double v) const;  // a constant of this type
  Scalar to(DType t) const { return t == dtype() ? *this : Scalar(*b_, b_->cast(t, ref_)); }
  bool real() const { return is_float(dtype()); }

 private:
  ScalarBuilder* b_;
  ScalarRef ref_;
};

inline Scalar apply(Prim p, Scalar a) { return {a.builder(), a.builder().un(p, a.ref())}; }
inline Scalar apply(Prim p, Scalar a, Scalar c) { return {a.builder(), a.builder().bin(p, a.ref(), c.ref())}; }

#define VESTA_SCALAR_OPERATOR(op, prim)                                                     \
  inline Scalar operator op(Scalar a, Scalar c) { return apply(Prim::prim, a, c); }         \
  inline Scalar operator op(Scalar a, double c) { return apply(Prim::prim, a, a.like(c)); } \
  inline Scalar operator op(double a, Scalar c) { return apply(Prim::prim, c.like(a), c); }
VESTA_SCALAR_OPERATOR(+, Add)
VESTA_SCALAR_OPERATOR(-, Sub)
VESTA_SCALAR_OPERATOR(*, Mul)
VESTA_SCALAR_OPERATOR(/, Div)
VESTA_SCALAR_OPERATOR(==, Eq)
VESTA_SCALAR_OPERATOR(!=, Ne)
VESTA_SCALAR_OPERATOR(<, Lt)
VESTA_SCALAR_OPERATOR(<=, Le)
VESTA_SCALAR_OPERATOR(>, Gt)
VESTA_SCALAR_OPERATOR(>=, Ge)
#undef VESTA_SCALAR_OPERATOR
inline Scalar operator-(Scalar a) { return apply(Prim::Neg, a); }
inline Scalar operator!(Scalar a) { return apply(Prim::Not, a); }
inline Scalar operator&(Scalar a, Scalar c) { return apply(Prim::And, a, c); }
inline Scalar operator|(Scalar a, Scalar c) { return apply(Prim::Or, a, c); }

inline Scalar select(Scalar c, Scalar a, Scalar b) {
  return {a.builder(), a.builder().select(c.ref(), a.ref(), b.ref())};
}
inline Scalar select(Scalar c, Scalar a, double b) { return select(c, a, a.like(b)); }
inline Scalar select(Scalar c, double a, Scalar b) { return select(c, b.like(a), b); }

inline Scalar exp(Scalar a) { return apply(Prim::Exp, a); }
inline Scalar expm1(Scalar a) { return apply(Prim::Expm1, a); }
inline Scalar log(Scalar a) { return apply(Prim::Log, a); }
inline Scalar log1p(Scalar a) { return apply(Prim::Log1p, a); }
inline Scalar sqrt(Scalar a) { return apply(Prim::Sqrt, a); }
inline Scalar rsqrt(Scalar a) { return apply(Prim::Rsqrt, a); }
inline Scalar sin(Scalar a) { return apply(Prim::Sin, a); }
inline Scalar cos(Scalar a) { return apply(Prim::Cos, a); }
inline Scalar tanh(Scalar a) { return apply(Prim::Tanh, a); }
inline Scalar erf(Scalar a) { return apply(Prim::Erf, a); }
inline Scalar sigmoid(Scalar a) { return apply(Prim::Sigmoid, a); }
inline Scalar abs(Scalar a) { return apply(Prim::Abs, a); }
inline Scalar trunc(Scalar a) { return apply(Prim::Trunc, a); }
inline Scalar floor(Scalar a) { return apply(Prim::Floor, a); }
inline Scalar is_nan(Scalar a) { return apply(Prim::IsNan, a); }
inline Scalar is_inf(Scalar a) { return apply(Prim::IsInf, a); }
inline Scalar maximum(Scalar a, Scalar b) { return apply(Prim::Max, a, b); }
inline Scalar minimum(Scalar a, Scalar b) { return apply(Prim::Min, a, b); }
inline Scalar maximum(Scalar a, double b) { return maximum(a, a.like(b)); }
inline Scalar minimum(Scalar a, double b) { return minimum(a, a.like(b)); }
inline Scalar pow(Scalar a, Scalar b) { return apply(Prim::Pow, a, b); }

class Body {
 public:
  Body(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarRef> x) : b_(&b), args_(&args), x_(x) {}
  Scalar operator[](size_t i) const { return {*b_, x_[i]}; }
  size_t size() const { return x_.size(); }
  const NodeArgs& args() const { return *args_; }
  ScalarBuilder& builder() const { return *b_; }
  bool has(std::string_view arg) const { return args_->has(arg); }
  // A Scalar or float argument as a constant of type t (of operand 0's type).
  Scalar number(std::string_view arg, DType t) const;
  Scalar number(std::string_view arg) const { return number(arg, (*this)[0].dtype()); }
  // A Scalar argument's value when it is a plain constant.
  double value(std::string_view arg) const { return args_->number(arg); }
  Scalar constant(DType t, double v) const;
  DType dtype() const { return x_[0].dtype; }

 private:
  ScalarBuilder* b_;
  const NodeArgs* args_;
  std::span<const ScalarRef> x_;
};

template <auto Formula>
ScalarRef body(ScalarBuilder& b, const NodeArgs& args, std::span<const ScalarRef> x) {
  return Formula(Body(b, args, x)).ref();
}
// A body that is one primitive over all operands.
template <Prim P>
ScalarRef primitive(ScalarBuilder& b, const NodeArgs&, std::span<const ScalarRef> x) {
  return b.emit(P, x);
}

}  // namespace vesta::graph
