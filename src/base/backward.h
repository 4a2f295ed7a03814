// Facts about the halves of a program with gradients, for those that make the halves and those that run them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vesta {

// A tensor that the forward half leaves to the backward half.
struct Saved {
  enum class From : uint8_t { Input, Output };  // of the forward half
  From from = From::Output;
  int index = 0;
  bool operator==(const Saved&) const = default;
};

// What autograd knows of a result.
enum class History : uint8_t {
  Recorded,      // what its memory gives: a node of ours, a view of an input or of another result
  Unrecorded,    // it is a view that was made while gradient mode was off
  Detached,      // none
  DetachedView,  // it is a view of a tensor that has none
  Released,      // one that a backward pass inside the program has freed: a further pass is an error
};

// A result whose history is Released. Autograd raises on the way from it to any of these.
struct ReleasedResult {
  int output = 0;
  std::vector<int> leads_to;  // inputs, or, if negative, the results -1 - result
};

// What a backward pass brings for a result.
enum class TangentState : uint8_t {
  Dense,      // a tensor with the strides of the result, or contiguous where the result has gaps or is expanded
  Expanded,   // one number, seen at every element: all strides are 0 (the gradient of a sum)
  Undefined,  // nothing: no loss depends on the result
};

// A node of autograd's graph that only calls hooks: those of one tensor, or of several tensors at once.
struct HookPlace {
  std::vector<int> crossings;  // the gradients that it gets (graph/joint.h)
  size_t after = 0;            // it gives gradients only to parts with smaller numbers
};

}  // namespace vesta
