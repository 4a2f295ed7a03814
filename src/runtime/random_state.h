// The state of the default generators, that of the CPU and that of the current GPU, before a run: a run that fails
// gives back the numbers that it drew, so that the program, run again by eager, draws the same.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

namespace vesta::runtime {

class RandomState {
 public:
  // The present one. That of a GPU is left out where PyTorch does not tell it: during a capture.
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
