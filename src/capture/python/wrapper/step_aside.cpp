#include "capture/python/wrapper/step_aside.h"

#include <algorithm>

#include "capture/python/tensors/tensors.h"

namespace vesta::capture {
namespace {

// After this many calls, one call runs compiled code: its guards notice a change of anything but the arguments. Each
// check that finds no change doubles the number.
constexpr int kFirstCheck = 16, kLongestCheck = 256;
constexpr size_t kMostArguments = 8;
// A graph of calls into ATen saves the Python code between them. Guards and boxed calls of two operators cost more than
// that saves. Many functions of torch.linalg are two operators.
constexpr int64_t kMostOperators = 2;
constexpr int64_t kMostFrames = 4;

size_t keywords(PyObject* names) { return names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0; }

}  // namespace

bool Gain::is_worth_it() const {
  if (!entered || passing || kernels > 0) return true;
  return operators > kMostOperators || (operators > 0 && frames > kMostFrames);
}

StepAside::Look StepAside::look(PyObject* x) {
  uint64_t facts = 0;
  if (is_tensor(x))
    facts = tensor_brief(x);
  else if (PyBool_Check(x))
    facts = x == Py_True;
  return {Py_TYPE(x), facts};
}

void StepAside::learn(const Gain& gain, PyObject* const* args, size_t count, PyObject* names,
                      totals::Tally* fallbacks) {
  const size_t all = count + keywords(names);
  const bool again = on_ && until_check_ <= 0;
  on_ = !gain.is_worth_it() && all <= kMostArguments;
  if (!on_) return;
  calls_to_check_ = again ? std::min(2 * calls_to_check_, kLongestCheck) : kFirstCheck;
  until_check_ = calls_to_check_;
  names_ = names;
  fallbacks_ = fallbacks;
  looks_.clear();
  for (size_t i = 0; i < all; ++i) looks_.push_back(look(args[i]));
}

bool StepAside::looks_the_same(PyObject* const* args, size_t count, PyObject* names) const {
  const size_t all = count + keywords(names);
  if (all != looks_.size() || names != names_) return false;
  for (size_t i = 0; i < all; ++i)
    if (!(look(args[i]) == looks_[i])) return false;
  return true;
}

}  // namespace vesta::capture
