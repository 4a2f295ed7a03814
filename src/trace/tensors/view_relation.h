// Relations between results of a program that are views. They differ from the memory that results share: a detached
// tensor shares an input's memory and is not a view of it.
#pragma once

#include <cstddef>
#include <vector>

namespace c10 {
struct IValue;
}

namespace vesta::trace {

struct ViewRelation {
  size_t output;
  int base;                                // the output that it is a view of; -1: it is not a view
  static constexpr int kCountsApart = -2;  // it is none, and has a version counter of its own
};

// Gives results that share memory the relations that eager gives them. Tensors that are not views come first in
// `relations`. `differentiable`: gradients are recorded for the results; detaching a result would cut them.
void apply(const std::vector<ViewRelation>& relations, std::vector<c10::IValue>& outputs, bool differentiable = false);

}  // namespace vesta::trace
