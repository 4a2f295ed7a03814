#include "trace/generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>
#include <mutex>

#include "base/check.h"

namespace vesta::trace {
namespace {

at::Tensor present_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

}  // namespace

GeneratorState::GeneratorState() : state_(present_state()) {}

GeneratorState GeneratorState::next() const {
  at::Generator other = at::detail::getDefaultCPUGenerator().clone();
  const std::lock_guard lock(other.mutex());
  other.set_state(state_);
  at::check_generator<at::CPUGeneratorImpl>(other)->random();
  return GeneratorState(other.get_state());
}

void GeneratorState::put_back() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state_);
}

void GeneratorState::require_unchanged() const {
  const at::Tensor now = present_state();
  if (now.nbytes() != state_.nbytes() || std::memcmp(now.const_data_ptr(), state_.const_data_ptr(), now.nbytes()) != 0)
    throw GeneratorChanged("the program sets the state of the random generator");
}

}  // namespace vesta::trace
