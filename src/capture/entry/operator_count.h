// Counts the calls of torch's operators by this thread, those that other operators make included.
#pragma once

#include <cstdint>

namespace vesta::capture {

class OperatorCount {
 public:
  OperatorCount();
  ~OperatorCount();
  OperatorCount(const OperatorCount&) = delete;
  int64_t now() const;  // since the object was made
  // The same, and for each node that autograd has made as many as a derivative usually calls.
  int64_t with_derivatives() const;

 private:
  const uint64_t callback_;
  const int64_t before_;
  const uint64_t nodes_before_;
};

}  // namespace vesta::capture
