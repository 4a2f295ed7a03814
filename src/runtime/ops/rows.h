// Direct calls: extern operators whose result ATen can write into memory that the run has for it, without the
// dispatcher's boxed call and without an allocation. One row each, in a file that has the name of the operator's file
// in graph/ops/.
//
// Guarantees the same numbers as the boxed call. An operator without a row is called boxed, which always works; its
// result is then copied where it must be in other memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <string>
#include <vector>

namespace vesta::runtime {

// Writes the operator's single result into `out`, which has its exact sizes and dtype. `stack` holds all arguments.
// Returns false where these arguments need the boxed call.
using IntoFn = bool (*)(const std::vector<c10::IValue>& stack, at::Tensor& out);

using Stack = std::vector<c10::IValue>;
// For rows whose call serves all arguments.
inline bool done(const at::Tensor&) { return true; }

struct DirectCallRow {
  const char* name;  // "aten::mul.Tensor"
  IntoFn into;
};

// nullptr: the operator has no row.
IntoFn find_direct_call(const std::string& op);

std::span<const DirectCallRow> binary_direct_calls();
std::span<const DirectCallRow> joining_direct_calls();
std::span<const DirectCallRow> matmul_direct_calls();

}  // namespace vesta::runtime
