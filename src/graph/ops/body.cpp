#include "graph/ops/body.h"

#include "base/check.h"

namespace vesta::graph {

Scalar Scalar::like(double v) const {
  return {*b_, is_float(dtype()) ? b_->constant(dtype(), v) : b_->integer(dtype(), static_cast<int64_t>(v))};
}

Scalar Body::constant(DType t, double v) const {
  return {*b_, is_float(t) ? b_->constant(t, v) : b_->integer(t, static_cast<int64_t>(v))};
}

Scalar Body::number(std::string_view arg, DType t) const {
  const Arg& a = args_->get(arg);
  if (const auto* v = std::get_if<double>(&a)) return constant(t, *v);
  if (const auto* v = std::get_if<bool>(&a)) return constant(t, *v);
  const auto* e = std::get_if<Expr>(&a);
  VESTA_CHECK(e, "argument {} is not a real number", arg);
  if (!e->is_constant()) return {*b_, b_->size(t, *e)};
  return {*b_, is_float(t) ? b_->constant(t, static_cast<double>(e->constant())) : b_->integer(t, e->constant())};
}

}  // namespace vesta::graph
