// Tensors made from nothing: the element is a function of the index.
#include "graph/rules/promotion.h"
#include "loops/ops/rows.h"

namespace vesta::loops {
namespace {

using graph::Arg;
bool is_real_number(const Arg& a) { return graph::is_number(a) && !std::holds_alternative<std::complex<double>>(a); }

ScalarRef fill(Lowering& l, const Node& node, const Value* v, Index) {
  return l.number(node.named().get("fill_value"), v->type.dtype);
}
bool accepts_fill(const Node& node) { return is_real_number(node.named().get("fill_value")); }

ScalarRef zero(Lowering& l, const Node&, const Value* v, Index) { return l.dag().integer(opmath(v->type.dtype), 0); }

// ATen computes start + step * i in int64, or in double (float for the half types).
ScalarRef arange(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  const Arg &start = node.named().get("start"), &step = node.named().get("step");
  DType t = v->type.dtype;
  if (std::holds_alternative<Expr>(start) && std::holds_alternative<Expr>(step)) {
    return d.cast(t, d.size(DType::I64, std::get<Expr>(start) + index[0] * std::get<Expr>(step)));
  }
  DType wide = is_narrow(t) ? DType::F32 : is_float(t) ? DType::F64 : DType::I64;
  ScalarRef i = d.cast(wide, d.size(DType::I64, index[0]));
  ScalarRef r = d.bin(Prim::Add, l.number(start, wide), d.bin(Prim::Mul, l.number(step, wide), i));
  return d.cast(t, r);
}
bool accepts_arange(const Node& node) {
  return is_real_number(node.named().get("start")) && is_real_number(node.named().get("step"));
}

ScalarRef eye(Lowering& l, const Node&, const Value* v, Index index) {
  Dag& d = l.dag();
  ScalarRef same = d.bin(Prim::Eq, d.size(DType::I64, index[0]), d.size(DType::I64, index[1]));
  return d.cast(opmath(v->type.dtype), same);
}

constexpr LoweringRow kFactoriesRows[] = {
    {.names = "aten::full", .element = fill, .accepts = accepts_fill},
    {.names = "aten::empty_strided", .element = zero},
    {.names = "aten::arange.start_step", .element = arange, .accepts = accepts_arange},
    {.names = "aten::eye aten::eye.m", .element = eye},
};

}  // namespace

std::span<const LoweringRow> factory_lowerings() { return kFactoriesRows; }

}  // namespace vesta::loops
