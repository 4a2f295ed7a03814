// Applies algebraic identities that keep every bit of an IEEE result: x*1, x/1, x-0, integer x+0, -(-x), casts to the
// same type or through a wider one, where(c, x, x), copies of values that no other node writes. The pass may not apply
// x + 0.0, which turns -0.0 into 0.0 (x + -0.0 does not).
#include <cmath>
#include <limits>
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/passes/uniform.h"

namespace vesta::graph {
namespace {

// NaN, which equals no number, if the argument is not a number that is known.
double number(const Arg& a) { return number_of(a).value_or(std::numeric_limits<double>::quiet_NaN()); }

bool is_one(const NodeArgs& n, std::string_view arg) {
  return n.schema().index_of(arg) < 0 || number(n.get(arg)) == 1.0;
}

Value* times(Node* n) {
  const NodeArgs a = n->named();
  if (number(a[1]) == 1.0) return value_of(a[0]);
  if (number(a[0]) == 1.0) return value_of(a[1]);
  return nullptr;
}

Value* divided(Node* n) {
  if (!is_float(n->results[0]->type.dtype) && !is_complex(n->results[0]->type.dtype)) return nullptr;
  return number(n->args()[1]) == 1.0 ? n->input(0) : nullptr;
}

// Whether x + z equals every x: integers with 0, floats with -0.0.
bool is_neutral(double z, DType t, bool negated) {
  if (z != 0) return false;
  return is_integral(t) || (is_float(t) && std::signbit(z) != negated);
}

Value* plus(Node* n) {
  const NodeArgs a = n->named();
  const DType t = n->results[0]->type.dtype;
  if (!is_one(a, "alpha")) return nullptr;
  if (is_neutral(number(a[1]), t, false)) return value_of(a[0]);
  if (is_neutral(number(a[0]), t, false)) return value_of(a[1]);
  return nullptr;
}

Value* minus(Node* n) {
  const NodeArgs a = n->named();
  if (!is_one(a, "alpha")) return nullptr;
  return is_neutral(number(a[1]), n->results[0]->type.dtype, true) ? value_of(a[0]) : nullptr;
}

Value* negated(Node* n) { return is_op(n->input(0), n->op->name) ? n->input(0)->producer->input(0) : nullptr; }

Value* copied(Node* n) { return n->input(0); }  // exact where the types are equal, which replace() requires

Value* chosen(Node* n) {
  const NodeArgs a = n->named();
  return value_of(a[1]) == value_of(a[2]) ? value_of(a[1]) : nullptr;
}

// Whether every value of `from` has an equal value in `to`.
bool holds_all(DType from, DType to) {
  const bool half = from == DType::F16 || from == DType::BF16;
  const bool small = from == DType::Bool || from == DType::U8 || from == DType::I8 || from == DType::I16;
  switch (to) {
    case DType::F64: return from == to || from == DType::F32 || from == DType::I32 || half || small;
    case DType::F32: return from == to || half || small;
    case DType::I64: return from == to || from == DType::I32 || small;
    case DType::I32: return from == to || small;
    default: return from == to;
  }
}

// Shortens a cast of a cast whose middle type holds every value of the first.
bool shorten_cast(Rewriter& r, Node* n) {
  Value* middle = n->input(0);
  if (!is_op(middle, n->op->name)) return false;
  Value* x = middle->producer->input(0);
  if (!holds_all(x->type.dtype, middle->type.dtype) || x->type.strides != middle->type.strides ||
      x->type.device != middle->type.device)
    return false;
  if (x->type == n->results[0]->type) return r.replace(n->results[0], x);
  if (!r.may()) return false;
  r.graph().set_arg(n, 0, x);
  return true;
}

using Identity = Value* (*)(Node*);
const std::unordered_map<std::string_view, Identity>& identities() {
  static const std::unordered_map<std::string_view, Identity> table = {
      {"aten::mul.Tensor", times},    {"aten::mul.Scalar", times},  {"aten::div.Tensor", divided},
      {"aten::div.Scalar", divided},  {"aten::add.Tensor", plus},   {"aten::add.Scalar", plus},
      {"aten::sub.Tensor", minus},    {"aten::sub.Scalar", minus},  {"aten::neg", negated},
      {"aten::bitwise_not", negated}, {"aten::where.self", chosen}, {"aten::clone", copied},
      {"aten::_to_copy", copied},
  };
  return table;
}

}  // namespace

bool apply_identities(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph, context);
  const auto& table = identities();
  graph.for_each_node([&](Node* n) {
    if (n->prepacked || n->results.size() != 1 || !n->results[0]) return;
    const auto it = table.find(n->op->name);
    if (it == table.end()) return;
    if (is_op(n, "aten::_to_copy") && shorten_cast(rewriter, n)) return;
    Value* same = it->second(n);
    if (same) rewriter.replace(n->results[0], same);
  });
  return rewriter.changed();
}

}  // namespace vesta::graph
