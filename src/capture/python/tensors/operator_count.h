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

 private:
  const uint64_t callback_;
  const int64_t before_;
};

// Whether PyTorch sees a GPU.
bool has_gpu();

}  // namespace vesta::capture
