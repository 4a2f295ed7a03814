// Refuses writes to overlapping memory. ATen's kernels raise an error where an operator writes to a tensor that shares
// some of its memory with another argument. A trace would give such a program a meaning (all reads before all writes),
// so it is left to eager.
#pragma once

#include "trace/operators/operator_table.h"
#include "trace/recorder.h"

namespace vesta::trace {

// Throws Unsupported if eager raises an error for a write of `source` to `target`. `same_allowed`: both may be the same
// elements.
void refuse_overlap(Recorder& r, const at::Tensor& target, const at::Tensor& source, bool same_allowed);
// Checks all tensors that `op` reads and writes.
void refuse_overlaps(Recorder& r, const Operator& op, const torch::jit::Stack& stack);

}  // namespace vesta::trace
