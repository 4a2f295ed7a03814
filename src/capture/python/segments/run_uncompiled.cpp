#include "capture/python/segments/run_uncompiled.h"

#include <algorithm>

#include "capture/python/interpreter/evaluate.h"

namespace vesta::capture {
namespace {

// After so many instructions, CPython goes on: it is faster than our evaluator.
constexpr int kMostInstructions = 10'000;

class UpToAnEnd final : public Operations {
 public:
  UpToAnEnd(PyThreadState* t, const std::vector<int>& ends) : thread_(t), ends_(ends) {}
  bool is_over() const { return count_ > kMostInstructions; }
  bool before(Frame* f, int position) override {
    if (std::ranges::find(ends_, position) != ends_.end()) return false;
    return ++count_ <= kMostInstructions && !is_observed(thread_, code_of(f));
  }

 private:
  PyThreadState* const thread_;
  const std::vector<int>& ends_;
  int count_ = 0;
};

}  // namespace

UncompiledRun run_uncompiled(PyThreadState* t, Frame* f, int position, const std::vector<int>& ends) {
  if (ends.empty()) return {.left = is_fresh(f) ? evaluate_by_cpython(t, f, 0) : resume(t, f, position)};
  UpToAnEnd operations(t, ends);
  link(t, f);
  Evaluation e{t, f, operations, position};
  const Step outcome = run(e);
  unlink(t, f);
  if (outcome == Step::Return) return {.left = finish(t, f, e.result, e.position)};
  if (outcome == Step::Error) return {.left = abandon(t, f)};
  if (std::ranges::find(ends, e.position) != ends.end()) return {.position = e.position};
  return {.left = resume(t, f, e.position), .astray = operations.is_over()};
}

}  // namespace vesta::capture
