// ATen's kernels refuse to write to a tensor that shares some of its memory with another argument. A trace would give
// such a program a meaning (all reads before all writes); it is eager's to refuse it.
#pragma once

#include "trace/operators/operator_table.h"
#include "trace/recorder.h"

namespace vesta::trace {

// Throws Unsupported if writing `target` from `source` is an error in eager. `same_allowed`: the two may be the same
// elements.
void refuse_overlap(Recorder& r, const at::Tensor& target, const at::Tensor& source, bool same_allowed);
// The same for all tensors that `op` reads and writes.
void refuse_overlaps(Recorder& r, const Operator& op, const torch::jit::Stack& stack);

}  // namespace vesta::trace
