// A graph draws from the default generator when it runs, in the state it then finds. A program that seeds the
// generator, or puts an old state back, means something else.
#pragma once

#include <ATen/core/Tensor.h>

namespace vesta::trace {

class GeneratorState {
 public:
  GeneratorState();
  // Throws Unsupported if the program has changed the state since construction.
  void require_unchanged() const;

 private:
  at::Tensor state_;
};

}  // namespace vesta::trace
