// Symbols that steps define: the integers that extern calls return (Extern::integers).
// No guard bounds them: later steps are right for whatever the call may return. Runs refuse sizes below 0.
#pragma once

#include "artifact/artifact.h"

namespace vesta::artifact {

constexpr int kBeforeTheRun = -1;

// Which steps define symbols, and when a size is known: once the last of those that define symbols of it has run.
class Definitions {
 public:
  // Symbols that steps define must exist.
  explicit Definitions(const Artifact& a);

  bool none() const { return steps_.empty(); }
  // The first at or after `step` that defines symbols; as many as there are steps if there is none.
  int next(int step) const;
  // The step after which it is known, or kBeforeTheRun.
  int known_after(const Size& s) const;
  int known_after(const TensorDesc& t) const;

 private:
  std::vector<int> by_symbol_;  // the step that defines it, or kBeforeTheRun
  std::vector<int> steps_;      // those that define symbols, in order
  int count_;                   // of all steps
};

// Throws InternalError where a symbol that is no input's has not exactly one step that defines it, or where something
// needs a size before it is known: a guard, an input, the arena or a derived weight those of before the run, a step
// those of the steps before it. Only what a call itself returns may have sizes that it defines.
// Indices must be verified, but those of Extern::integers.
void verify_returned(const Artifact& a);

}  // namespace vesta::artifact
