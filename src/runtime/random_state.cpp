#include "runtime/random_state.h"

#include <mutex>

namespace vesta::runtime {

RandomState::RandomState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* g = at::check_generator<at::CPUGeneratorImpl>(generator);
  engine_ = g->engine();
  next_float_ = g->next_float_normal_sample();
  next_double_ = g->next_double_normal_sample();
}

void RandomState::put_back() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* g = at::check_generator<at::CPUGeneratorImpl>(generator);
  g->set_engine(engine_);
  g->set_next_float_normal_sample(next_float_);
  g->set_next_double_normal_sample(next_double_);
}

}  // namespace vesta::runtime
