#include "graph/rules/body.h"

#include "base/check.h"

namespace vesta::graph {

namespace {
// Converts as C++ and ATen convert: every number but 0 is true.
ScalarRef converted(ScalarBuilder& b, DType t, double v) {
  if (is_float(t)) return b.constant(t, v);
  return b.integer(t, t == DType::Bool ? v != 0 : static_cast<int64_t>(v));
}
}  // namespace

Scalar Scalar::like(double v) const { return {*b_, converted(*b_, dtype(), v)}; }

Scalar Body::constant(DType t, double v) const { return {*b_, converted(*b_, t, v)}; }

Scalar Body::number(std::string_view arg, DType t) const {
  const Arg& a = args_->get(arg);
  if (const auto* v = std::get_if<double>(&a)) return constant(t, *v);
  if (const auto* v = std::get_if<bool>(&a)) return constant(t, *v);
  const auto* e = std::get_if<Expr>(&a);
  VESTA_CHECK(e, "argument {} is not a real number", arg);
  if (!e->is_constant()) return {*b_, b_->size(t, *e)};
  return {*b_, is_float(t) ? b_->constant(t, static_cast<double>(e->constant()))
                           : b_->integer(t, t == DType::Bool ? !e->is_constant(0) : e->constant())};
}

}  // namespace vesta::graph
