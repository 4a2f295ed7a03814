// The trace's own table of operators: those that the trace cannot treat by their schema alone. One row each, in a file
// that has the name of the operator's file in graph/ops/ where it has one there.
//
// Guarantees that an operator has at most one row. A handler takes the operator's arguments off the stack and leaves
// its results; it may not call torch's kernels on traced tensors except through the dispatcher.
#pragma once

#include <ATen/core/stack.h>

#include <span>
#include <string>

#include "base/check.h"
#include "trace/operators/arguments.h"
#include "trace/operators/fallback.h"
#include "trace/recorder.h"

namespace vesta::trace {

using torch::jit::Stack;

struct OperatorRow {
  const char* name;                   // "aten::copy_", with its overload
  Handler handler = nullptr;          // nullptr: treated by its schema
  bool whole_with_gradients = false;  // a composite operator whose handler records it whole; a trace with gradients
                                      // decomposes it, because its parts have the derivatives
  bool drops_history = false;         // detach_: does nothing to a tensor that requires no gradient
  bool no_autograd_view = false;      // a view that autograd does not follow
  bool meta_differs = false;          // its meta function gives other sizes or strides than its CPU kernel
  const char* refusal = nullptr;      // why no trace may contain it, after its name
  bool cpu_only = false;              // its strides are known on the CPU only
};

// nullptr: the operator has no row.
const OperatorRow* find_operator_row(const std::string& name);

// The handler of operators that only change a tensor's sizes and strides: transpose_, squeeze_, ...
void change_view_in_place(Recorder& r, const Operator& op, Stack& stack);

std::span<const OperatorRow> activation_rows();
std::span<const OperatorRow> attention_rows();
std::span<const OperatorRow> contents_rows();
std::span<const OperatorRow> copy_rows();
std::span<const OperatorRow> factory_rows();
std::span<const OperatorRow> forward_gradient_rows();
std::span<const OperatorRow> indexing_rows();
std::span<const OperatorRow> linear_algebra_rows();
std::span<const OperatorRow> normalization_rows();
std::span<const OperatorRow> optimizer_rows();
std::span<const OperatorRow> pooling_rows();
std::span<const OperatorRow> upsampling_rows();
std::span<const OperatorRow> view_rows();

// ---- for handlers

inline c10::IValue argument(const Operator& op, const Stack& stack, size_t i) {
  return stack[stack.size() - op.arg_count + i];
}
// Replaces the arguments by the result.
inline void reply(const Operator& op, Stack& stack, c10::IValue result) {
  torch::jit::drop(stack, op.arg_count);
  stack.push_back(std::move(result));
}
// The handler of operators that return their argument. A real tensor is lifted when another operator uses it.
inline void unchanged(Recorder&, const Operator& op, Stack& stack) { reply(op, stack, argument(op, stack, 0)); }
inline c10::IValue boxed(Recorder& r, Expr e) {
  return e.is_constant() ? c10::IValue(e.constant()) : c10::IValue(to_sym_int(r.shared_from_this(), e));
}

}  // namespace vesta::trace
