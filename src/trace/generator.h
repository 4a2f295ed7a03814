// A graph draws from the default generator when it runs, in the state it then finds. A program that seeds the
// generator, or puts an old state back, means something else.
#pragma once

#include <ATen/core/Tensor.h>

#include "vesta/error.h"

namespace vesta::trace {

// The state changed meanwhile, by the program or by another thread.
struct GeneratorChanged : Unsupported {
  GeneratorChanged(const char* message, bool drawn) : Unsupported(message), drawn_from(drawn) {}
  bool drawn_from;  // numbers were drawn, no state was set
};

class GeneratorState {
 public:
  GeneratorState();  // the present one
  // That of the generator after it has drawn once more.
  GeneratorState next() const;
  void put_back() const;
  // Drawing numbers from this state (a few million at most) gives `later`.
  bool leads_to(const GeneratorState& later) const;
  // Throws GeneratorChanged if this is no longer the state.
  void require_unchanged() const;

 private:
  explicit GeneratorState(at::Tensor state) : state_(std::move(state)) {}
  at::Tensor state_;
};

}  // namespace vesta::trace
