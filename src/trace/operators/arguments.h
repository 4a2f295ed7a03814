// Converts arguments of torch's boxed calls to arguments of nodes, and back.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

#include "graph/graph.h"

namespace vesta::trace {

class Recorder;
struct Operator;

// The number of a 0-d tensor that was made from a Python or C++ number, which takes part in type promotion as a number.
std::optional<graph::Arg> wrapped_number(const at::Tensor& t);
graph::Arg to_arg(const c10::Scalar& s);

// Converts the operator's arguments, in schema order. A wrapped number in a Tensor position stays a number.
std::vector<graph::Arg> to_args(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> args);

// Replaces every defined tensor of the value by what `fn` makes of it.
template <class F>
void replace_tensors(c10::IValue& v, F&& fn) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) v = fn(v.toTensor());
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(t.defined() ? fn(t) : t);
    v = std::move(list);
  } else if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& t : v.toOptionalTensorVector())
      list.push_back(t && t->defined() ? std::optional<at::Tensor>(fn(*t)) : t);
    v = std::move(list);
  }
}

// The sizes or integers in a boxed argument.
graph::IntList to_int_list(const c10::IValue& v);
Expr to_int(const c10::IValue& v);

}  // namespace vesta::trace
