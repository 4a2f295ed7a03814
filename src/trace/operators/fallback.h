// The fallback kernel behind the trace's dispatch key, and its steps. Every operator on a traced tensor comes here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "trace/operators/operator_table.h"

namespace vesta::trace {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The steps of the fallback, for handlers of operators (ops/rows.h).
void call(Recorder& r, const Operator& op, torch::jit::Stack& stack);  // by the operator's treatment
void record(Recorder& r, const Operator& op, torch::jit::Stack& stack, const graph::TensorType* otherwise = nullptr);
void record_view(Recorder& r, const Operator& op, torch::jit::Stack& stack);
void decompose(Recorder& r, const Operator& op, torch::jit::Stack& stack);  // by its composite kernel
// Whether the sizes are equal, under a guard where they are symbolic.
bool same_sizes(Recorder& r, const std::vector<Expr>& a, const std::vector<Expr>& b);
// Writes `value` (any dtype and layout that eager's copy_ accepts) into `target`.
void write_tensor(Recorder& r, const at::Tensor& target, graph::Value* value);

}  // namespace vesta::trace
