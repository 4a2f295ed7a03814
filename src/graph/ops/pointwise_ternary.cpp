// Elementwise functions of three operands: where, clamp, lerp, addcmul, masked_fill.
#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"
#include "graph/rules/iterator_strides.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

constexpr OpRow pointwise(const char* name, PointwiseBody f, uint8_t accepts = kAnyType, Promote p = Promote::Default,
                          ShapeRule shape = nullptr, uint32_t flags = 0) {
  return {.name = name,
          .family = Family::Pointwise,
          .promote = p,
          .shape = shape,
          .body = f,
          .flags = flags,
          .accepts = accepts};
}

constexpr uint8_t kOrdered = kRealNumber;

Scalar larger(Scalar a, Scalar c) { return a.dtype() == DType::Bool ? a | c : maximum(a, c); }
Scalar smaller(Scalar a, Scalar c) { return a.dtype() == DType::Bool ? a & c : minimum(a, c); }

// As in ATen, a NaN bound makes every element NaN.
Scalar clamp(Body x) {
  Scalar v = x[0];
  size_t next = 1;
  if (x.has("min")) v = larger(v, x[next++]);
  if (x.has("max")) v = smaller(v, x[next]);
  return v;
}

template <uint8_t Accepts>
void clamp_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  static constexpr OpRow row = pointwise("aten::clamp", nullptr, Accepts);
  VESTA_USER_CHECK(args.has("min") || args.has("max"), "clamp needs a bound");
  default_shape(row, args, g, results);
}

Scalar lerp_formula(Scalar a, Scalar b, Scalar w) {
  return select(abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w));
}

bool is_one(const Arg& a) {
  return (std::holds_alternative<Expr>(a) && std::get<Expr>(a).is_constant(1)) ||
         (std::holds_alternative<double>(a) && std::get<double>(a) == 1);
}
Scalar addcmul(Body x) {
  return is_one(x.args().get("value")) ? x[0] + x[1] * x[2] : x[0] + x.number("value") * x[1] * x[2];
}
Scalar addcdiv(Body x) {
  return is_one(x.args().get("value")) ? x[0] + x[1] / x[2] : x[0] + x.number("value") * x[1] / x[2];
}

void same_dtypes(const NodeArgs& args, size_t tensors, const char* op) {
  for (size_t i = 1; i < tensors; ++i)
    VESTA_USER_CHECK(!std::holds_alternative<Value*>(args[i]) || args.tensor(i).dtype == args.tensor(0).dtype,
                     "{}: the operands have different types", op);
}
void lerp_tensor_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  static constexpr OpRow row = pointwise("aten::lerp", nullptr, kFloatType | kComplexType);
  same_dtypes(args, 3, row.name);
  default_shape(row, args, g, results);
}
void lerp_number_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  static constexpr OpRow row = pointwise("aten::lerp", nullptr, kFloatType | kComplexType);
  same_dtypes(args, 2, row.name);
  default_shape(row, args, g, results);
}

void masked_fill_shape(const NodeArgs& args, Guards& g, std::vector<TensorType>& results) {
  const TensorType& self = args.tensor(0);
  const TensorType& mask = args.tensor(1);
  VESTA_USER_CHECK(mask.dtype == DType::Bool, "masked_fill needs a boolean mask");
  const Arg& value = args[2];
  const DType filler = is_number(value) ? number_type(value) : args.tensor(2).dtype;
  VESTA_USER_CHECK(is_number(value) || args.tensor(2).dim() == 0, "masked_fill needs a 0-d value");
  VESTA_USER_CHECK(category(filler) <= kFloatType || category(self.dtype) == kComplexType,
                   "masked_fill cannot fill real numbers with a complex value");
  results.assign(1, contiguous_like(self, broadcast(g, self.sizes, mask.sizes)));
}
Scalar masked_fill_number(Body x) { return select(x[1], x.number("value"), x[0]); }
Scalar masked_fill_tensor(Body x) { return select(x[1], x[2].to(x.dtype()), x[0]); }

Complex complex_where(ComplexArgs x) { return select(x[0].re, x[1], x[2]); }
Complex complex_addcmul(ComplexArgs x) { return x[0] + x.number("value") * x[1] * x[2]; }
Complex complex_masked_fill(ComplexArgs x) { return select(x[1].re, x.number("value"), x[0]); }

constexpr OpRow kRows[] = {
    with_complex(
        pointwise("aten::where.self", body<[](Body x) { return select(x[0], x[1], x[2]); }>, kAnyType, Promote::Select),
        complex_body<complex_where>),
    with_complex(pointwise("aten::where.ScalarSelf", body<[](Body x) { return select(x[0], x[1], x[2]); }>, kAnyType,
                           Promote::Select),
                 complex_body<complex_where>),
    with_complex(pointwise("aten::where.ScalarOther", body<[](Body x) { return select(x[0], x[1], x[2]); }>, kAnyType,
                           Promote::Select),
                 complex_body<complex_where>),
    pointwise("aten::clamp", body<clamp>, kOrdered, Promote::Default, clamp_shape<kOrdered>),
    pointwise("aten::clamp.Tensor", body<clamp>, kRealNumber | kBoolType, Promote::Default,
              clamp_shape<kRealNumber | kBoolType>),
    pointwise("aten::clamp_min", body<[](Body x) { return larger(x[0], x[1]); }>, kOrdered),
    pointwise("aten::clamp_min.Tensor", body<[](Body x) { return larger(x[0], x[1]); }>, kRealNumber | kBoolType),
    pointwise("aten::clamp_max", body<[](Body x) { return smaller(x[0], x[1]); }>, kOrdered),
    pointwise("aten::clamp_max.Tensor", body<[](Body x) { return smaller(x[0], x[1]); }>, kRealNumber | kBoolType),
    pointwise("aten::lerp.Scalar", body<[](Body x) { return lerp_formula(x[0], x[1], x.number("weight")); }>, kAnyType,
              Promote::Default, lerp_number_shape),
    pointwise("aten::lerp.Tensor", body<[](Body x) { return lerp_formula(x[0], x[1], x[2]); }>, kAnyType,
              Promote::Default, lerp_tensor_shape),
    with_complex(pointwise("aten::addcmul", body<addcmul>, kRealNumber | kComplexType), complex_body<complex_addcmul>),
    pointwise("aten::addcdiv", body<addcdiv>, kFloatType | kComplexType),
    with_complex(
        pointwise("aten::masked_fill.Scalar", body<masked_fill_number>, kAnyType, Promote::Keep, masked_fill_shape),
        complex_body<complex_masked_fill>),
    pointwise("aten::masked_fill.Tensor", body<masked_fill_tensor>, kAnyType, Promote::Keep, masked_fill_shape),
};

}  // namespace

std::span<const OpRow> ternary_rows() { return kRows; }

}  // namespace vesta::graph
