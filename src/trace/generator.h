// The state of the default random generator around a trace. A graph draws from the generator when it runs, in the state
// that it then finds. A program that seeds the generator, or restores an old state, means something else and may not be
// traced.
#pragma once

#include <ATen/core/Tensor.h>

#include "vesta/error.h"

namespace vesta::trace {

// The state changed during the trace, by the program or by another thread.
struct GeneratorChanged : Unsupported {
  GeneratorChanged(const char* message, bool drawn) : Unsupported(message), drawn_from(drawn) {}
  bool drawn_from;  // numbers were drawn, but no state was set
};

class GeneratorState {
 public:
  GeneratorState();  // the current state
  // The state of the generator after one more draw.
  GeneratorState next() const;
  void put_back() const;
  // Whether drawing numbers from this state (a few million at most) gives `later`.
  bool leads_to(const GeneratorState& later) const;
  // Throws GeneratorChanged if the generator has another state now.
  void require_unchanged() const;

 private:
  explicit GeneratorState(at::Tensor state) : state_(std::move(state)) {}
  at::Tensor state_;
};

}  // namespace vesta::trace
