#include "runtime/random_state.h"

#include <ATen/Context.h>

#include <mutex>

namespace vesta::runtime {

RandomState::RandomState(c10::Device device) {
  if (!device.is_cpu()) {
    try {
      const at::Generator& g = at::globalContext().defaultGenerator(device);
      const std::lock_guard lock(at::Generator(g).mutex());
      offset_ = g.get_offset();
      of_device_ = g;
    } catch (const c10::Error&) {
      of_device_ = {};
    }
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* g = at::check_generator<at::CPUGeneratorImpl>(generator);
  engine_ = g->engine();
  next_float_ = g->next_float_normal_sample();
  next_double_ = g->next_double_normal_sample();
}

void RandomState::put_back() const {
  if (at::Generator g = of_device_; g.defined()) {
    const std::lock_guard lock(g.mutex());
    g.set_offset(offset_);
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* g = at::check_generator<at::CPUGeneratorImpl>(generator);
  g->set_engine(engine_);
  g->set_next_float_normal_sample(next_float_);
  g->set_next_double_normal_sample(next_double_);
}

}  // namespace vesta::runtime
