// The argument of a node: a value, a list of values, or plain data. Arguments own nothing of a graph: a Value belongs
// to the Graph that made it.
#pragma once

#include <complex>
#include <string>
#include <variant>
#include <vector>

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

}  // namespace vesta::graph
