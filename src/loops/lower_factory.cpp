// Tensors made from nothing: the element is a function of the index.
#include "loops/lower_rows.h"

namespace vesta::loops {

graph::ScalarRef Lowering::number(const graph::Arg& a, DType t) {
  if (auto* b = std::get_if<bool>(&a)) return dag_.cast(t, dag_.integer(DType::Bool, *b));
  if (auto* e = std::get_if<Expr>(&a)) return dag_.cast(t, dag_.size(DType::I64, *e));
  double v = std::get<double>(a);
  if (t == DType::Bool) return dag_.integer(t, v != 0);
  if (is_integral(t)) return dag_.integer(t, static_cast<int64_t>(v));
  return dag_.cast(t, dag_.constant(DType::F64, v));
}

namespace {

using graph::Arg;
using graph::Node;
using graph::ScalarRef;
using graph::Value;
using Index = Lowering::Index;

bool is_real_number(const Arg& a) {
  return std::holds_alternative<bool>(a) || std::holds_alternative<Expr>(a) || std::holds_alternative<double>(a);
}

const Arg& named(const Node& node, const char* name) { return node.named().get(name); }

ScalarRef fill(Lowering& l, const Node& node, const Value* v, Index) {
  return l.number(named(node, "fill_value"), v->type.dtype);
}
bool accepts_fill(const Node& node) { return is_real_number(named(node, "fill_value")); }

ScalarRef scalar(Lowering& l, const Node& node, const Value* v, Index) {
  return l.number(named(node, "s"), v->type.dtype);
}
bool accepts_scalar(const Node& node) { return is_real_number(named(node, "s")); }

ScalarRef zero(Lowering& l, const Node&, const Value* v, Index) { return l.dag().integer(opmath(v->type.dtype), 0); }
ScalarRef one(Lowering& l, const Node&, const Value* v, Index) { return l.dag().integer(opmath(v->type.dtype), 1); }

Arg argument_or(const Node& node, const char* name, Arg otherwise) {
  int i = node.op->schema.index_of(name);
  return i < 0 || graph::is_none(node.args()[static_cast<size_t>(i)]) ? otherwise : node.args()[static_cast<size_t>(i)];
}

// ATen computes start + step * i in int64, or in double (float for the half types).
ScalarRef arange(Lowering& l, const Node& node, const Value* v, Index index) {
  Dag& d = l.dag();
  Arg start = argument_or(node, "start", Expr(0)), step = argument_or(node, "step", Expr(1));
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
  return is_real_number(argument_or(node, "start", Expr(0))) && is_real_number(argument_or(node, "step", Expr(1)));
}

ScalarRef eye(Lowering& l, const Node&, const Value* v, Index index) {
  Dag& d = l.dag();
  ScalarRef same = d.bin(Prim::Eq, d.size(DType::I64, index[0]), d.size(DType::I64, index[1]));
  return d.cast(opmath(v->type.dtype), same);
}

constexpr ElementRow kRows[] = {
    {"aten::full", fill, accepts_fill},
    {"aten::full_like", fill, accepts_fill},
    {"aten::new_full", fill, accepts_fill},
    {"aten::scalar_tensor", scalar, accepts_scalar},
    {"aten::zeros", zero},
    {"aten::empty_strided", zero},
    {"aten::zeros_like", zero},
    {"aten::new_zeros", zero},
    {"aten::ones", one},
    {"aten::ones_like", one},
    {"aten::new_ones", one},
    {"aten::arange", arange, accepts_arange},
    {"aten::arange.start", arange, accepts_arange},
    {"aten::arange.start_step", arange, accepts_arange},
    {"aten::eye", eye},
    {"aten::eye.m", eye},
};

}  // namespace

std::span<const ElementRow> factory_elements() { return kRows; }

}  // namespace vesta::loops
