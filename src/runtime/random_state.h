// The state of the default generators, of the CPU and of the current GPU, before a run. A run that fails restores it,
// so that eager, which runs the program again, draws the same numbers.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

namespace vesta::runtime {

class RandomState {
 public:
  // The current state. A GPU's state is left out where PyTorch does not give it: during a capture.
  explicit RandomState(c10::Device device = c10::kCPU);
  void put_back() const;

 private:
  at::mt19937 engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
  at::Generator of_device_;
  uint64_t offset_ = 0;
};

}  // namespace vesta::runtime
