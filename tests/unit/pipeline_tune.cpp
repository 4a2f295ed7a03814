// Schedules of GPU kernels that are measured, on a machine without a GPU: a meter and a clock of the tests say how long
// everything takes.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>

#include "cuda_plans.h"
#include "loops/zeros.h"
#include "pipeline/tune.h"
#include "schedule/alternatives.h"
#include "store_folder.h"
#include "vesta/error.h"

namespace vesta {
namespace {

using testing::on_device;
using testing::softmax_text;

const Target& gpu() {
  static const Target t = machine::cuda_target_of(90);
  return t;
}

schedule::Plan plan_of(const std::string& text) {
  schedule::Options options;
  options.target = gpu();
  return schedule::make_plan(*on_device("cuda:0", text), options);
}

// Two kernels of different weight, the second one twice.
std::string two_kernels() {
  std::string inputs, nodes, outputs;
  int input = 0, node = 3;
  for (const auto& [rows, columns] : {std::pair(64, 96), {512, 4096}, {512, 4096}}) {
    const std::string all = fmt::format("f32[{}, {}]@D", rows, columns), one = fmt::format("f32[{}, 1]@D", rows);
    inputs += fmt::format("input %{} : {} = argument \"x{}\"\n", input, all, input);
    nodes += fmt::format("%{} : {} = aten::amax(%{}, [1], true)\n", node, one, input);
    nodes += fmt::format("%{} : {} = aten::sub.Tensor(%{}, %{})\n", node + 1, all, input, node);
    nodes += fmt::format("%{} : {} = aten::exp(%{})\n", node + 2, all, node + 1);
    nodes += fmt::format("%{} : {} = aten::sum.dim_IntList(%{}, [1], true)\n", node + 3, one, node + 2);
    nodes += fmt::format("%{} : {} = aten::div.Tensor(%{}, %{})\n", node + 4, all, node + 2, node + 3);
    outputs += fmt::format("output %{}\n", node + 4);
    node += 5;
    ++input;
  }
  return inputs + nodes + outputs;
}

std::vector<const schedule::KernelStep*> kernels_of(const schedule::Plan& plan) {
  std::vector<const schedule::KernelStep*> out;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) out.push_back(k);
  return out;
}

// A launch takes 10 us; one of `block` threads takes `us`.
struct FakeMeter : machine::Meter {
  std::map<unsigned, double> us;
  std::vector<machine::Trial> trials;
  std::vector<size_t> counts;
  double* clock = nullptr;
  double seconds = 0;  // that a measurement takes
  bool room = true;
  double only_once = 0;  // the first measurement is off by this factor, for all but the first

  std::optional<std::vector<double>> measure(const machine::Trial& trial,
                                             std::span<const machine::TimedKernel> kernels) override {
    if (!room) return std::nullopt;
    if (clock) *clock += seconds;
    trials.push_back(trial);
    counts.push_back(kernels.size());
    std::vector<double> out;
    for (const machine::TimedKernel& k : kernels) {
      EXPECT_NE(k.object, nullptr);
      EXPECT_GT(k.shape.blocks, 0u);
      out.push_back(us.contains(k.shape.threads) ? us[k.shape.threads] : 10);
    }
    if (only_once > 0)
      for (size_t i = 1; i < out.size(); ++i) out[i] *= only_once;
    only_once = 0;
    return out;
  }
};

pipeline::Tuned tune(schedule::Plan& plan, FakeMeter& meter, store::Store* store = nullptr, double seconds = 10) {
  double now = 100;
  meter.clock = &now;
  codegen::CompileOptions compile;
  compile.store = store;
  return pipeline::tune(plan, gpu(), {seconds, [&] { return now; }, compile}, meter);
}

TEST(Tune, TheFastestScheduleIsTaken) {
  schedule::Plan plan = plan_of(two_kernels());
  const schedule::Plan before = plan_of(two_kernels());
  ASSERT_EQ(kernels_of(plan).size(), 3u);
  const auto block = static_cast<unsigned>(kernels_of(plan)[1]->kernel->threads.block);
  const unsigned other = block == 512 ? 256 : 512;
  FakeMeter meter;
  meter.us = {{other, 5}, {block, 10}};
  const pipeline::Tuned tuned = tune(plan, meter);
  EXPECT_EQ(tuned.report.kernels, 2);
  EXPECT_EQ(tuned.report.measured, 2);
  EXPECT_EQ(tuned.report.left, 0);
  EXPECT_TRUE(tuned.finished);
  // The heavier kernel's schedules come first, each with its memory and sizes.
  EXPECT_EQ(meter.trials[0].bytes, 2 * 512 * 4096 * 4);
  ASSERT_EQ(meter.trials[0].buffers.size(), 2u);
  EXPECT_EQ(meter.trials[0].buffers[1].start, 512 * 4096 * 4);
  EXPECT_EQ(meter.counts[1], 2u);  // the fastest once more
  const auto steps = kernels_of(plan);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(steps[i]->kernel->threads.block, other);
    EXPECT_EQ(steps[i]->text, print(*steps[i]->kernel));
    EXPECT_EQ(hint(steps[i]->items), hint(kernels_of(before)[i]->items));
  }
  EXPECT_GE(tuned.report.changed, 1);
  EXPECT_LT(tuned.report.after_us, tuned.report.before_us);
}

TEST(Tune, ALittleFasterIsNotFaster) {
  for (const bool once : {false, true}) {
    schedule::Plan plan = plan_of(softmax_text(512, 4096));
    const std::string text = kernels_of(plan)[0]->text;
    FakeMeter meter;
    for (const unsigned block : {64, 128, 256, 512, 1024}) meter.us[block] = 10;
    if (once)
      meter.only_once = 0.5;  // by chance
    else
      for (auto& [block, us] : meter.us)
        us = block == static_cast<unsigned>(kernels_of(plan)[0]->kernel->threads.block) ? 10 : 9.8;
    const pipeline::Tuned tuned = tune(plan, meter);
    EXPECT_EQ(tuned.report.measured, 1);
    EXPECT_EQ(tuned.report.changed, 0);
    EXPECT_EQ(tuned.report.before_us, tuned.report.after_us);
    EXPECT_EQ(kernels_of(plan)[0]->text, text);
    EXPECT_EQ(meter.trials.size(), once ? 2u : 1u);
  }
}

TEST(Tune, WhatTheGpuDoesNotTakeIsNotTaken) {
  schedule::Plan plan = plan_of(softmax_text(512, 4096));
  FakeMeter meter;
  for (const unsigned block : {64, 128, 256, 512, 1024}) meter.us[block] = INFINITY;
  const std::string text = kernels_of(plan)[0]->text;
  EXPECT_EQ(tune(plan, meter).report.changed, 0);
  EXPECT_EQ(kernels_of(plan)[0]->text, text);
}

using TuneStore = testing::StoreTest;

TEST_F(TuneStore, AChoiceIsKept) {
  double known_us = 0;
  std::string text;
  {
    store::Store store(folder_);
    schedule::Plan plan = plan_of(two_kernels());
    FakeMeter meter;
    meter.us = {{1024, 5}, {256, 4}};
    const pipeline::Tuned tuned = tune(plan, meter, &store);
    EXPECT_EQ(tuned.report.known, 0);
    known_us = tuned.report.after_us;
    text = kernels_of(plan)[1]->text;
    ASSERT_NE(text, kernels_of(plan_of(two_kernels()))[1]->text);
    EXPECT_TRUE(store.flush(std::chrono::seconds(10)));
  }
  store::Store store(folder_);
  schedule::Plan plan = plan_of(two_kernels());
  FakeMeter meter;
  const pipeline::Tuned tuned = tune(plan, meter, &store);
  EXPECT_TRUE(meter.trials.empty());
  EXPECT_EQ(tuned.report.known, 2);
  EXPECT_EQ(tuned.report.measured, 0);
  EXPECT_EQ(tuned.report.after_us, known_us);
  EXPECT_EQ(kernels_of(plan)[1]->text, text);
  // Other sizes, or another GPU, are measured anew.
  schedule::Plan larger = plan_of(softmax_text(1024, 4096));
  EXPECT_EQ(tune(larger, meter, &store).report.measured, 1);
  Target wider = gpu();
  wider.threads = 200;
  schedule::Plan elsewhere = plan_of(softmax_text(1024, 4096));
  codegen::CompileOptions compile;
  compile.store = &store;
  EXPECT_EQ(pipeline::tune(elsewhere, wider, {10, [] { return 0; }, compile}, meter).report.known, 0);
}

TEST_F(TuneStore, ANoteThatNamesNoSchedule) {
  store::Store store(folder_);
  schedule::Plan plan = plan_of(softmax_text(512, 4096));
  FakeMeter meter;
  tune(plan, meter, &store);
  ASSERT_TRUE(store.flush(std::chrono::seconds(10)));
  for (const store::Listed& e : store::list(folder_, true))
    if (e.key.starts_with("tuned_"))
      for (const char* wrong :
           {"", "1 2", "1 2\n", "a b\nkernel\n", "1 2\nkernel\nthreads 96 team 1 held 0 each 1\n"}) {
        store.put(e.key, wrong);
        ASSERT_TRUE(store.flush(std::chrono::seconds(10)));
        plan = plan_of(softmax_text(512, 4096));
        EXPECT_EQ(tune(plan, meter, &store).report.measured, 1) << wrong;
      }
}

// No kernel is begun when the time is over; the heaviest has been measured by then.
TEST(Tune, TheBudget) {
  schedule::Plan plan = plan_of(two_kernels());
  FakeMeter meter;
  meter.seconds = 6;
  pipeline::Tuned tuned = tune(plan, meter, nullptr, 5);
  EXPECT_EQ(tuned.report.measured, 1);
  EXPECT_EQ(tuned.report.left, 1);
  EXPECT_FALSE(tuned.finished);
  EXPECT_EQ(meter.trials[0].bytes, 2 * 512 * 4096 * 4);
  EXPECT_EQ(tuned.report.seconds, 6);
  meter.trials.clear();
  tuned = tune(plan, meter, nullptr, 0);
  EXPECT_TRUE(meter.trials.empty());
  EXPECT_EQ(tuned.report.left, 2);
}

TEST(Tune, NoMemory) {
  schedule::Plan plan = plan_of(two_kernels());
  FakeMeter meter;
  meter.room = false;
  const pipeline::Tuned tuned = tune(plan, meter);
  EXPECT_EQ(tuned.report.left, 2);
  EXPECT_EQ(tuned.report.measured, 0);
  EXPECT_TRUE(tuned.finished);
}

TEST(Tune, NothingToChoose) {
  schedule::Plan plan = plan_of(R"(input %0 : f32[4, 4]@D = argument "x"
%1 : f32[4, 4]@D = aten::mm(%0, %0)
output %1
)");
  FakeMeter meter;
  EXPECT_EQ(tune(plan, meter).report.why_none, "no kernel has another schedule");
}

// Here there is no GPU: the plan stays, and the report says why.
TEST(Tune, WithoutADriver) {
  schedule::Plan plan = plan_of(softmax_text(512, 4096));
  const std::string text = kernels_of(plan)[0]->text;
  const pipeline::Tuned tuned = pipeline::tune_here(plan, gpu(), 10, {});
  if (tuned.report.why_none.empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(kernels_of(plan)[0]->text, text);
  EXPECT_FALSE(tuned.finished);
}

TEST(Tune, Reports) {
  TuningReport r;
  r.kernels = 3;
  r.measured = 2;
  r.known = 1;
  r.schedules = 25;
  r.changed = 1;
  r.seconds = 1.26;
  r.before_us = 30.04;
  r.after_us = 20.5;
  EXPECT_EQ(to_string(r),
            "measured 25 schedules of 2 kernels in 1.3 s, read the choice for 1 kernels from the cache; changed 1 "
            "kernels, 30.0 us -> "
            "20.5 us");
  r.left = 4;
  EXPECT_TRUE(to_string(r).ends_with("; there was no time or memory for 4 kernels"));
  r.why_none = "no driver";
  EXPECT_EQ(to_string(r), "none: no driver");
}

}  // namespace
}  // namespace vesta
