// Values that follow from numbers of the program alone. For example, item() of torch.div(16, 4) is known while tracing.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>

#include "trace/operators/operator_table.h"
#include "trace/recorder.h"

namespace vesta::trace {

// Evaluates a 0-d result of an operator whose arguments are numbers and known values.
void note_known(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> arguments, const graph::Value* result);

std::optional<c10::Scalar> known_number(Recorder& r, const at::Tensor& t);

// Computes the contents of a tensor on the CPU, if the program makes it from numbers alone: a mask of arange() and
// comparisons, for example. nullopt: the contents depend on an input, are random, or are large.
std::optional<at::Tensor> known_contents(Recorder& r, const at::Tensor& t);

// The operator reads a value that only a run has.
[[noreturn]] void needs_value(const Operator& op);

}  // namespace vesta::trace
