// The argument of a node: a value, a list of values, or plain data. Arguments own nothing of a graph: a Value belongs
// to the Graph that made it.
#pragma once

#include <complex>
#include <variant>

#include "base/expr.h"
#include "base/type.h"

namespace vesta::graph {

class Value;

struct None {
  bool operator==(const None&) const = default;
};
using ValueList = std::vector<Value*>;  // an entry is nullptr for None in a list of optional tensors
using IntList = std::vector<Expr>;

// Integers are always Expr (constant or symbolic). A Scalar argument holds bool, Expr, double or complex.
using Arg = std::variant<None, Value*, ValueList, bool, Expr, IntList, double, std::vector<double>, std::vector<bool>,
                         std::complex<double>, std::string, DType, Device, MemoryFormat, Layout>;

inline bool is_none(const Arg& a) { return std::holds_alternative<None>(a); }
// Whether the argument is the integer or the float 1.
inline bool is_one(const Arg& a) {
  if (const Expr* e = std::get_if<Expr>(&a)) return e->is_constant(1);
  const double* d = std::get_if<double>(&a);
  return d && *d == 1;
}

}  // namespace vesta::graph
