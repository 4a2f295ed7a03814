// Arguments of torch's boxed calls to arguments of nodes, and back.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>

#include "graph/graph.h"

namespace vesta::trace {

class Recorder;
struct Operator;

// The number that a 0-d tensor made from a Python or C++ number stands for; it takes part in type promotion as a
// number.
std::optional<graph::Arg> wrapped_number(const at::Tensor& t);
graph::Arg to_arg(const c10::Scalar& s);

// `args` are the operator's arguments in schema order. A wrapped number in a Tensor position stays a number in the
// result.
std::vector<graph::Arg> to_args(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> args);

// The sizes or integers in a boxed argument.
graph::IntList to_int_list(const c10::IValue& v);
Expr to_int(const c10::IValue& v);

}  // namespace vesta::trace
