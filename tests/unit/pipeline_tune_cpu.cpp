// Schedules of a CPU's kernels that are measured: by a meter of the tests, and by the one that runs them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "pipeline/tune.h"
#include "runtime/kernel_meter.h"
#include "schedule/plan.h"

namespace vesta {
namespace {

schedule::Plan plan_of(int64_t rows) {
  schedule::Options options;
  options.target = host_target();
  return schedule::make_plan(*graph::parse(fmt::format(R"(
input %0 : f32[{0}, 96] = argument "x"
input %1 : f32[160, 96] = argument "w"
%2 : f32[{0}, 160] = aten::linear(%0, %1, none)
output %2
)",
                                                       rows)),
                             options);
}

const schedule::KernelStep* kernel_of(const schedule::Plan& plan) {
  return std::get_if<schedule::KernelStep>(&plan.steps.at(0));
}

// The last schedule is the fastest one.
struct LastIsFastest : machine::Meter {
  std::vector<machine::TimedKernel> seen;
  std::optional<std::vector<double>> measure(const machine::Trial&,
                                             std::span<const machine::TimedKernel> kernels) override {
    seen.assign(kernels.begin(), kernels.end());
    std::vector<double> out(kernels.size(), 10);
    out.back() = 5;
    return out;
  }
};

TEST(TuneCpu, AChosenScheduleHasItsItemsAndScratch) {
  schedule::Plan plan = plan_of(64);
  const schedule::KernelStep before = *kernel_of(plan);
  if (before.kernel->registers.rows == 0) return;  // this machine's kernels compute no product
  LastIsFastest meter;
  const pipeline::Tuned tuned = pipeline::tune(plan, host_target(), {10, [] { return 0.0; }, {}}, meter);
  EXPECT_EQ(tuned.report.changed, 1);
  EXPECT_EQ(meter.seen.size(), 2u);  // the fastest once more
  const schedule::KernelStep& after = *kernel_of(plan);
  EXPECT_NE(after.text, before.text);
  EXPECT_EQ(after.text, print(*after.kernel));
  EXPECT_EQ(hint(after.items), hint(loops::work_items(*after.kernel)));
  EXPECT_EQ(hint(after.scratch), hint(loops::scratch_bytes(*after.kernel)));
  EXPECT_EQ(meter.seen.back().items, hint(after.items));
  EXPECT_EQ(meter.seen.back().scratch, hint(after.scratch));
  // All items together cost what they did.
  const auto cost = [](const schedule::KernelStep& s) { return hint(s.items) * hint(s.item_cost); };
  EXPECT_NEAR(static_cast<double>(cost(after)), static_cast<double>(cost(before)),
              static_cast<double>(hint(after.items)));
}

TEST(TuneCpu, KernelsRunOnZeros) {
  schedule::Plan plan = plan_of(48);
  const auto meter = runtime::make_kernel_meter(1 << 20);
  const pipeline::Tuned tuned = pipeline::tune(plan, host_target(), {10, [] { return 0.0; }, {}}, *meter);
  if (tuned.report.kernels == 0) return;  // no kernel has another schedule
  EXPECT_EQ(tuned.report.measured, 1);
  EXPECT_GT(tuned.report.before_us, 0);
  EXPECT_LE(tuned.report.after_us, tuned.report.before_us);
}

// A kernel reads at places that another one has computed: both find zeros.
TEST(TuneCpu, NothingIsLeftOfAnotherKernel) {
  schedule::Options options;
  options.target = host_target();
  schedule::Plan plan = schedule::make_plan(*graph::parse(R"(
input %0 : f32[5000] = argument "x"
input %1 : i64[5000] = argument "i"
%2 : f32[5000] = aten::exp(%0)
%3 : f32[5000] = aten::index_select(%0, 0, %1)
output %2
output %3
)"),
                                            options);
  const auto meter = runtime::make_kernel_meter(1 << 20);
  for (int i = 0; i < 2; ++i) {
    const pipeline::Tuned tuned = pipeline::tune(plan, host_target(), {10, [] { return 0.0; }, {}}, *meter);
    EXPECT_EQ(tuned.report.measured, tuned.report.kernels);
  }
}

}  // namespace
}  // namespace vesta
