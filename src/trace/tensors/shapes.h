// The types of an operator's results.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "graph/graph.h"

namespace vesta::trace {

class Recorder;
struct Operator;

// By the op row's rule, or by ATen's own shape function on meta tensors (symbolic sizes are specialised for it).
// `args` are what to_args gave, `boxed` the arguments themselves. An undefined result has dtype Other. Throws
// Unsupported if nobody knows, UserError where eager would refuse the arguments.
std::vector<graph::TensorType> result_types(Recorder& r, const Operator& op, const std::vector<graph::Arg>& args,
                                            c10::ArrayRef<c10::IValue> boxed);
bool has_rule(const Operator& op);

}  // namespace vesta::trace
