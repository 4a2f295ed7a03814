// The symbols that steps define: integers that extern calls return (Extern::integers). No guard bounds them, so later
// steps must be right for every value. A run refuses sizes below 0.
#pragma once

#include "artifact/artifact.h"

namespace vesta::artifact {

constexpr int kBeforeTheRun = -1;

// Lists the steps that define symbols. A size is known after the last step that defines one of its symbols.
class Definitions {
 public:
  // Every symbol that a step defines must exist.
  explicit Definitions(const Artifact& a);

  bool none() const { return steps_.empty(); }
  // The first step at or after `step` that defines symbols; the number of steps if there is none.
  int next(int step) const;
  // The step after which the size is known, or kBeforeTheRun.
  int known_after(const Size& s) const;
  int known_after(const TensorDesc& t) const;

 private:
  std::vector<int> by_symbol_;  // the step that defines it, or kBeforeTheRun
  std::vector<int> steps_;      // the steps that define symbols, in order
  int count_;                   // of all steps
};

// Throws InternalError if a symbol that no input defines is not defined by exactly one step, or if a size is needed
// before it is known. Guards, inputs, the arena and prepacked constants need their sizes before the run; a step needs
// its sizes before it begins, and only the call's own results may have sizes that it defines. All indices except
// Extern::integers must be verified before.
void verify_returned(const Artifact& a);

}  // namespace vesta::artifact
