// Elementwise functions of three operands: where, clamp, lerp, addcmul, masked_fill.
#include "graph/ops/rows.h"
#include "graph/rules/complex_body.h"
#include "graph/rules/promotion.h"

namespace vesta::graph {
namespace {

constexpr OpRow plain(const char* names, PointwiseBody f, uint8_t accepts = kAnyType) {
  return pointwise(names, Promote::Default, f, accepts);
}

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
void clamp_shape(const NodeArgs& args, Guards& g, Results& results) {
  VESTA_USER_CHECK(args.has("min") || args.has("max"), "clamp needs a bound");
  default_shape(plain("aten::clamp", nullptr, Accepts), args, g, results);
}

Scalar lerp_formula(Scalar a, Scalar b, Scalar w) {
  return select(abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w));
}

Scalar addcmul(Body x) {
  return is_one(x.args().get("value")) ? x[0] + x[1] * x[2] : x[0] + x.number("value") * x[1] * x[2];
}
Scalar addcdiv(Body x) {
  return is_one(x.args().get("value")) ? x[0] + x[1] / x[2] : x[0] + x.number("value") * x[1] / x[2];
}

void lerp_shape(const NodeArgs& args, Guards& g, Results& results) {
  for (size_t i = 1; i < args.size(); ++i)
    VESTA_USER_CHECK(!std::holds_alternative<Value*>(args[i]) || args.tensor(i).dtype == args.tensor(0).dtype,
                     "aten::lerp: the operands have different types");
  default_shape(plain("aten::lerp", nullptr, kFloatType | kComplexType), args, g, results);
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

constexpr PointwiseBody kWhere = body<[](Body x) { return select(x[0], x[1], x[2]); }>;
constexpr PointwiseBody kLerpByNumber = body<[](Body x) { return lerp_formula(x[0], x[1], x.number("weight")); }>;
constexpr PointwiseBody kLerp = body<[](Body x) { return lerp_formula(x[0], x[1], x[2]); }>;
constexpr PointwiseBody kAtLeast = body<[](Body x) { return larger(x[0], x[1]); }>;
constexpr PointwiseBody kAtMost = body<[](Body x) { return smaller(x[0], x[1]); }>;

constexpr OpRow masked_fill(const char* names, PointwiseBody f) {
  return with_shape(pointwise(names, Promote::Keep, f), masked_fill_shape);
}

constexpr OpRow kTernaryRows[] = {
    with_complex(pointwise("aten::where.self aten::where.ScalarSelf aten::where.ScalarOther", Promote::Select, kWhere),
                 complex_body<complex_where>),
    with_shape(plain("aten::clamp", body<clamp>, kRealNumber), clamp_shape<kRealNumber>),
    with_shape(plain("aten::clamp.Tensor", body<clamp>, kNotComplex), clamp_shape<kNotComplex>),
    plain("aten::clamp_min", kAtLeast, kRealNumber),
    plain("aten::clamp_min.Tensor", kAtLeast, kNotComplex),
    plain("aten::clamp_max", kAtMost, kRealNumber),
    plain("aten::clamp_max.Tensor", kAtMost, kNotComplex),
    with_shape(plain("aten::lerp.Scalar", kLerpByNumber), lerp_shape),
    with_shape(plain("aten::lerp.Tensor", kLerp), lerp_shape),
    with_complex(plain("aten::addcmul", body<addcmul>, kRealNumber | kComplexType), complex_body<complex_addcmul>),
    plain("aten::addcdiv", body<addcdiv>, kFloatType | kComplexType),
    with_complex(masked_fill("aten::masked_fill.Scalar", body<masked_fill_number>), complex_body<complex_masked_fill>),
    masked_fill("aten::masked_fill.Tensor", body<masked_fill_tensor>),
};

}  // namespace

std::span<const OpRow> ternary_rows() { return kTernaryRows; }

}  // namespace vesta::graph
