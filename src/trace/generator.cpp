#include "trace/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace vesta::trace {
namespace {

at::Tensor present_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

// A new generator in the given state.
at::Generator in_state(const at::Tensor& state) {
  at::Generator other = at::detail::getDefaultCPUGenerator().clone();
  const std::lock_guard lock(other.mutex());
  other.set_state(state);
  return other;
}

}  // namespace

GeneratorState::GeneratorState() : state_(present_state()) {}

GeneratorState GeneratorState::next() const {
  at::Generator other = in_state(state_);
  const std::lock_guard lock(other.mutex());
  at::check_generator<at::CPUGeneratorImpl>(other)->random();
  return GeneratorState(other.get_state());
}

bool GeneratorState::leads_to(const GeneratorState& later) const {
  constexpr int kMostBlocks = 4096;  // 2.6 million numbers: about 10 ms
  at::mt19937 from = at::check_generator<at::CPUGeneratorImpl>(in_state(state_))->engine();
  const at::mt19937_data_pod to = at::check_generator<at::CPUGeneratorImpl>(in_state(later.state_))->engine().data();
  if (from.seed() != to.seed_) return false;
  uint32_t position = from.data().next_;
  for (int block = 0; block < kMostBlocks; ++block, position = 0) {
    const at::mt19937_data_pod now = from.data();
    if (now.state_ == to.state_) return position <= to.next_;
    for (int left = std::max(now.left_, 1); left > 0; --left) from();
  }
  return false;
}

void GeneratorState::put_back() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state_);
}

void GeneratorState::require_unchanged() const {
  const at::Tensor now = present_state();
  if (now.nbytes() == state_.nbytes() && std::memcmp(now.const_data_ptr(), state_.const_data_ptr(), now.nbytes()) == 0)
    return;
  throw GeneratorChanged("the program sets the state of the random generator", leads_to(GeneratorState(now)));
}

}  // namespace vesta::trace
