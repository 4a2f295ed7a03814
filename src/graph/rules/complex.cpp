#include "graph/rules/complex.h"

#include <algorithm>

namespace vesta::graph {
namespace {

bool is_complex_arg(const Arg& a) {
  const auto* v = std::get_if<Value*>(&a);
  return (v && *v && is_complex((*v)->type.dtype)) || std::holds_alternative<std::complex<double>>(a);
}

}  // namespace

ComplexBody find_complex_body(const Node& node) {
  const OpRow* row = node.op->row;
  if (!row || !row->complex) return nullptr;
  if (row->flags & kComplexSquare) {
    const Arg& exponent = node.named().get("exponent");
    const auto* e = std::get_if<Expr>(&exponent);
    const auto* f = std::get_if<double>(&exponent);
    if (!(e && e->is_constant(2)) && !(f && *f == 2)) return nullptr;
  }
  return row->complex;
}

bool is_complex_node(const Node& node) {
  for (const Value* v : node.results)
    if (v && is_complex(v->type.dtype)) return true;
  return std::any_of(node.args().begin(), node.args().end(), is_complex_arg);
}

}  // namespace vesta::graph
