// Dags by themselves, without a schedule: what their texts say, what makes one valid, and what it computes. Tests
// compare the kernels that a schedule makes with it.
#pragma once

#include "loops/dag.h"

namespace vesta::loops {

// The inverse of print().
std::unique_ptr<Dag> parse_dag(std::string_view text);

void verify(const Dag& dag);  // InternalError naming the broken rule

// Runs a Dag slowly. `buffers`: one pointer for each of dag.buffers(); `sizes`: values of dag.sizes(). An access
// outside of its buffer is not done and throws an InternalError that names it.
void interpret(const Dag& dag, std::span<void* const> buffers, std::span<const int64_t> sizes);

}  // namespace vesta::loops
