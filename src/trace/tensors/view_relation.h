// Which results of a program are views, and of what, where that differs from the memory that they lie in: a detached
// tensor shares an input's memory and is no view of it.
#pragma once

#include <cstddef>
#include <vector>

namespace c10 {
struct IValue;
}

namespace vesta::trace {

struct ViewRelation {
  size_t output;
  int base;  // the output that it is a view of, or -1: it is no view
};

// Makes the relations eager's, of results that share memory. Tensors that are no views come first in `relations`.
// `differentiable`: gradients are recorded for the results, which detaching one would cut.
void apply(const std::vector<ViewRelation>& relations, std::vector<c10::IValue>& outputs, bool differentiable = false);

}  // namespace vesta::trace
