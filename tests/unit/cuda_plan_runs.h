// Plans for a GPU beside the same graph's plan for the CPU, both run by the interpreter.
#pragma once

#include "base/check.h"
#include "cuda_plans.h"
#include "schedule_run.h"

namespace vesta::testing {

inline schedule::Options for_device(DeviceType device) {
  schedule::Options options = with_dags();
  if (device == DeviceType::CUDA) options.target = machine::cuda_target_of(90);
  return options;
}

inline const loops::Kernel& only_kernel(const schedule::Plan& plan) {
  const loops::Kernel* found = nullptr;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) {
      EXPECT_EQ(found, nullptr) << "more than one kernel";
      found = k->kernel.get();
    }
  VESTA_USER_CHECK(found != nullptr, "no kernel");
  return *found;
}

// The plan for a GPU of a graph text in which "@D" stands for the device, run by the interpreter.
inline schedule::Plan check(const std::string& text) {
  const auto gpu = on_device("cuda:0", text), cpu = on_device("cpu", text);
  schedule::Plan plan = schedule::make_plan(*gpu, for_device(DeviceType::CUDA));
  schedule::Plan same = schedule::make_plan(*cpu, for_device(DeviceType::CPU));
  std::vector<Host> a, b;
  uint32_t seed = 1;
  for (const graph::Input& i : gpu->inputs) a.push_back(random_host(i.value->type, seed++));
  b = a;
  const auto x = run_plan(plan, a), y = run_plan(same, b);
  EXPECT_EQ(x.size(), y.size());
  for (size_t o = 0; o < x.size(); ++o) {
    EXPECT_EQ(x[o].size(), y[o].size());
    for (size_t i = 0; i < x[o].size() && i < y[o].size(); ++i)
      EXPECT_NEAR(x[o][i], y[o][i], 1e-4 * (1 + std::abs(y[o][i]))) << schedule::print(plan);
  }
  return plan;
}

}  // namespace vesta::testing
