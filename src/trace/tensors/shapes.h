// Computes the types of an operator's results.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

class Recorder;
struct Operator;

// Uses the rule of the op row, or ATen's own shape function on meta tensors, for which symbolic sizes are specialized.
// `args` are the result of to_args(), `boxed` the arguments themselves. An undefined result has dtype Other. Throws
// Unsupported if neither gives the types, UserError where eager would refuse the arguments.
std::vector<graph::TensorType> result_types(Recorder& r, const Operator& op, const std::vector<graph::Arg>& args,
                                            c10::ArrayRef<c10::IValue> boxed);
bool has_rule(const Operator& op);

}  // namespace vesta::trace
