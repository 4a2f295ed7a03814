// The state of the default CPU generator before a run: a run that fails gives back the numbers that it drew, so that
// the program, run again by eager, draws the same.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

#include <optional>

namespace vesta::runtime {

class RandomState {
 public:
  RandomState();  // the present one
  void put_back() const;

 private:
  at::mt19937 engine_;
  std::optional<float> next_float_;
  std::optional<double> next_double_;
};

}  // namespace vesta::runtime
