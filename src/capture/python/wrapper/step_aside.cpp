#include "capture/python/wrapper/step_aside.h"

#include <algorithm>

namespace vesta::capture {
namespace {

// After this many calls, one call runs compiled code: its guards notice a change of anything but the arguments. Each
// check that finds no change doubles the number.
constexpr int kFirstCheck = 16, kLongestCheck = 256;
// A graph of calls into ATen saves the Python code between them. Guards and boxed calls of two operators cost more than
// that saves. Many functions of torch.linalg are two operators.
constexpr int64_t kMostOperators = 2;
constexpr int64_t kMostFrames = 4;

}  // namespace

bool Gain::is_worth_it() const {
  if (!entered || passing || kernels > 0) return true;
  return operators > kMostOperators || (operators > 0 && frames > kMostFrames);
}

void StepAside::learn(const Gain& gain, const CallArguments& call, totals::Tally* fallbacks) {
  const bool again = on_ && until_check_ <= 0;
  on_ = !gain.is_worth_it() && call.count() <= CallSignature::kMostArguments;
  if (!on_) return;
  calls_to_check_ = again ? std::min(2 * calls_to_check_, kLongestCheck) : kFirstCheck;
  until_check_ = calls_to_check_;
  fallbacks_ = fallbacks;
  signature_ = CallSignature(call);
}

}  // namespace vesta::capture
