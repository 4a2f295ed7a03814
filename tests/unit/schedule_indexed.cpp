// Plans of operators that read at computed places, and of running combinations: the fused plan against the unfused
// one, and what shares a kernel.
#include <fmt/format.h>

#include <cmath>

#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

schedule::Plan check(const std::string& text) { return check_plan(*graph::parse(text)); }

int calls(const schedule::Plan& plan, const std::string& op) {
  int n = 0;
  for (const schedule::Step& s : plan.steps) {
    if (auto* x = std::get_if<schedule::ExternStep>(&s)) n += x->op->name == op;
  }
  return n;
}

int asserts(const schedule::Plan& plan) {
  int n = 0;
  for (const schedule::Step& s : plan.steps) n += std::holds_alternative<schedule::AssertStep>(s);
  return n;
}

TEST(IndexedPlan, EmbeddingFusesWithItsReader) {
  auto plan = check(R"(input %0 : f32[7, 8] = parameter "w"
input %1 : i64[3] = argument "i"
input %2 : f32[3, 8] = argument "x"
%3 : f32[3, 8] = aten::embedding(%0, %1)
%4 : f32[3, 8] = aten::add.Tensor(%3, %2)
%5 : f32[3] = aten::sum.dim_IntList(%4, [1])
output %4
output %5
)");
  EXPECT_EQ(kernels(plan), 2) << schedule::print(plan);  // the check, and everything else
  EXPECT_EQ(asserts(plan), 1);
}

TEST(IndexedPlan, OneCheckForEqualIndices) {
  auto plan = check(R"(input %0 : f32[7, 8] = parameter "w"
input %1 : f32[7, 8] = parameter "v"
input %2 : i64[3] = argument "i"
%3 : f32[3, 8] = aten::embedding(%0, %2)
%4 : f32[3, 8] = aten::embedding(%1, %2)
%5 : f32[3, 8] = aten::add.Tensor(%3, %4)
output %5
)");
  EXPECT_EQ(kernels(plan), 2) << schedule::print(plan);
  EXPECT_EQ(asserts(plan), 1);
}

// Nothing is fused with them; along the last dimension ATen reads each place once.
TEST(IndexedPlan, MovesAlongRowsThatFuseWithNothingAreCalls) {
  const std::string inputs = R"(input %0 : f32[3, 8] = argument "x"
input %1 : i64[3, 8] = argument "i"
input %2 : f32[3, 8] = argument "y"
)";
  for (const char* op : {"aten::gather(%0, 1, %1)", "aten::scatter.src(%0, 0, %1, %2)",
                         "aten::scatter_add(%0, 1, %1, %2)", "aten::scatter_reduce.two(%0, 1, %1, %2, \"sum\")"}) {
    SCOPED_TRACE(op);
    const auto g = graph::parse(fmt::format("{}%3 : f32[3, 8] = {}\noutput %3\n", inputs, op));
    const schedule::Plan plan = schedule::make_plan(*g, with_dags());
    EXPECT_EQ(kernels(plan), 0) << schedule::print(plan);
    EXPECT_EQ(plan.steps.size(), 1u) << schedule::print(plan);
    const auto fused =
        graph::parse(fmt::format("{}%3 : f32[3, 8] = {}\n%4 : f32[3, 8] = aten::exp(%3)\noutput %4\n", inputs, op));
    if (std::string_view(op).starts_with("aten::gather")) {
      EXPECT_GT(kernels(schedule::make_plan(*fused, {})), 1);
    }
  }
  for (const char* op : {"aten::gather(%0, 0, %1)", "aten::scatter_add(%0, 0, %1, %2)",
                         "aten::scatter_reduce.two(%0, 1, %1, %2, \"amax\")"}) {
    SCOPED_TRACE(op);
    const auto g = graph::parse(fmt::format("{}%3 : f32[3, 8] = {}\noutput %3\n", inputs, op));
    EXPECT_GT(kernels(schedule::make_plan(*g, with_dags())), 1);
  }
}

// Primitives with only a scalar function in generated code.
TEST(MapPlan, FunctionsWithoutVectorsAreCallsWhereTheyStandAlone) {
  auto plan_of = [](const char* type, const char* body) {
    const auto g =
        graph::parse(fmt::format("input %0 : {0}[64] = argument \"x\"\n%1 : {0}[64] = {1}\noutput %1\n", type, body));
    return schedule::make_plan(*g, with_dags());
  };
  EXPECT_EQ(kernels(plan_of("f64", "aten::erfinv(%0)")), 0);
  EXPECT_EQ(kernels(plan_of("f64", "aten::lgamma(%0)")), 0);
  EXPECT_EQ(kernels(plan_of("f32", "aten::lgamma(%0)")), 1);
  EXPECT_EQ(kernels(plan_of("f64", "aten::exp(%0)")), 1);
}

TEST(MapPlan, LongLinesAreStretchedByACallWhereNothingIsFused) {
  auto plan_of = [](int64_t in, int64_t out, const char* more) {
    return schedule::make_plan(*graph::parse(fmt::format(R"(input %0 : f32[8, 4, {0}] = argument "x"
%1 : f32[8, 4, {1}] = aten::upsample_linear1d(%0, [{1}], false)
{2}
)",
                                                         in, out, more)),
                               {});
  };
  const std::string fused = "%2 : f32[8, 4, 4096] = aten::exp(%1)\noutput %2";
  EXPECT_EQ(kernels(plan_of(2048, 4096, "output %1")), 0);
  EXPECT_EQ(kernels(plan_of(2048, 4096, fused.c_str())), 1);
  EXPECT_EQ(kernels(plan_of(8192, 4096, "output %1")), 1);  // shrinks
  EXPECT_EQ(kernels(plan_of(8, 16, "output %1")), 1);       // little
}

TEST(MapPlan, AFewElementsFromNothingAreACallWhereNothingElseIsComputed) {
  auto plan_of = [](int64_t size, const char* more) {
    return schedule::make_plan(*graph::parse(fmt::format(R"(input %0 : f32[4] = argument "x"
%1 : f32[{0}] = aten::full([{0}], 0, dtype=dtype.f32)
{1}
)",
                                                         size, more)),
                               {});
  };
  EXPECT_EQ(kernels(plan_of(4, "output %1")), 0);
  EXPECT_EQ(kernels(plan_of(1 << 20, "output %1")), 1);
  EXPECT_EQ(kernels(plan_of(4, "%2 : f32[4] = aten::exp(%0)\noutput %1\noutput %2")), 2);
  EXPECT_EQ(kernels(plan_of(4, "%2 : f32[4] = aten::add.Tensor(%0, %1)\noutput %2")), 1);
}

// An output that nothing fills has memory, and no step.
TEST(MapPlan, UninitialisedOutputsAreOnlyAllocated) {
  const auto g = graph::parse(R"(input %0 : f32[4, 8] = argument "x"
%1 : f32[4, 8] = aten::empty_strided([4, 8], [8, 1], dtype=dtype.f32)
%2 : f32[4, 8] = aten::empty_strided([4, 8], [8, 1], dtype=dtype.f32)
%3 : f32[4, 8] = aten::add.Tensor(%0, %2)
output %1
output %3
)");
  const schedule::Plan plan = schedule::make_plan(*g, with_dags());
  EXPECT_EQ(plan.steps.size(), 1u) << schedule::print(plan);
}

// All cores check many places: in chunks, which are then joined.
TEST(IndexedPlan, ManyPlacesAreCheckedInChunks) {
  const std::string text = R"(input %0 : f32[7, 2] = argument "x"
input %1 : i64[512, 512] = argument "i"
%2 : f32[512, 512, 2] = aten::embedding(%0, %1)
output %2
)";
  auto plan = check(text);
  EXPECT_EQ(kernels(plan), 3) << schedule::print(plan);  // the chunks, their conjunction, the embedding
  EXPECT_EQ(asserts(plan), 1);
  const auto& chunks = std::get<schedule::KernelStep>(plan.steps[0]);
  EXPECT_EQ(hint(chunks.items), 64) << schedule::print(plan);
  // Each is a piece of memory: eight of the 512 lines.
  EXPECT_EQ(chunks.kernel->ranges[1].extent.constant(), 8 * 512) << schedule::print(plan);
  // One place out of range is found wherever it lies.
  for (int64_t at : {0, 512 * 7 + 3, 512 * 512 - 1}) {
    const auto g = graph::parse(text);
    std::vector<Host> inputs = {random_host(g->inputs[0].value->type, 1), random_host(g->inputs[1].value->type, 2)};
    inputs[1].i64()[at] = 7;
    EXPECT_THROW(run_plan(plan, inputs), UserError) << at;
    inputs[1].i64()[at] = -1;
    EXPECT_THROW(run_plan(plan, inputs), UserError) << at;
  }
}

TEST(IndexedPlan, PlacesAreCheckedBeforeTheyAreRead) {
  const auto g = graph::parse(R"(input %0 : f32[3, 8] = argument "x"
input %1 : i64[64] = argument "i"
%2 : f32[64, 8] = aten::index_select(%0, 0, %1)
%3 : f32[64, 8] = aten::neg(%2)
output %3
)");
  schedule::Plan plan = schedule::make_plan(*g, with_dags());
  std::vector<Host> inputs = {random_host(g->inputs[0].value->type, 1), random_host(g->inputs[1].value->type, 2, 3)};
  run_plan(plan, inputs);
  inputs[1].i64()[63] = int64_t{1} << 40;
  EXPECT_THROW(run_plan(plan, inputs), UserError);
  inputs[1].i64()[63] = -1;
  EXPECT_THROW(run_plan(plan, inputs), UserError);
}

TEST(IndexedPlan, IndicesComputedInTheProgramAreMadeBeforeTheirCheck) {
  auto plan = check(R"(input %0 : f32[8, 4] = argument "x"
input %1 : i64[6] = argument "i"
%2 : i64[6] = aten::mul.Tensor(%1, %1)
%3 : i64[6] = aten::clamp(%2, 0, 7)
%4 : f32[6, 4] = aten::index.Tensor(%0, [%3])
output %3
output %4
)");
  EXPECT_EQ(asserts(plan), 1);
}

TEST(IndexedPlan, SeveralIndicesBroadcastTogether) {
  check(R"(input %0 : f32[5, 6, 7] = argument "x"
input %1 : i64[3] = argument "i"
input %2 : i64[2, 1] = argument "j"
%3 : f32[2, 3, 6] = aten::index.Tensor(%0, [%1, none, %2])
%4 : f32[2, 3, 7] = aten::index.Tensor(%0, [%1, %2])
%5 : f32[5, 2, 3] = aten::index.Tensor(%0, [none, %1, %2])
output %3
output %4
output %5
)");
}

TEST(IndexedPlan, RunningSumFusesWithBothSides) {
  auto plan = check(R"(input %0 : f32[4, 40] = argument "x"
%1 : f32[4, 40] = aten::exp(%0)
%2 : f32[4, 40] = aten::cumsum(%1, 1)
%3 : f32[4, 40] = aten::mul.Tensor(%2, %0)
%4 : f32[4, 1] = aten::sum.dim_IntList(%3, [1], true)
%5 : f32[4, 40] = aten::div.Tensor(%3, %4)
output %5
)");
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
}

TEST(IndexedPlan, RunningSumsAlongEveryDimension) {
  for (const char* dim : {"0", "1", "2"}) {
    check(std::string(R"(input %0 : f32[4, 5, 40] = argument "x"
%1 : f32[4, 5, 40] = aten::cumsum(%0, )") +
          dim + R"()
%2 : f32[4, 5, 40], %3 : i64[4, 5, 40] = aten::cummin(%0, )" +
          dim + R"()
output %1
output %2
output %3
)");
  }
}

TEST(IndexedPlan, RunningMaximumTakesTheLastOfEquals) {
  const auto g = graph::parse(R"(input %0 : f32[6] = argument "x"
%1 : f32[6], %2 : i64[6] = aten::cummax(%0, 0)
output %1
output %2
)");
  schedule::Plan plan = schedule::make_plan(*g, with_dags());
  std::vector<Host> inputs = {random_host(g->inputs[0].value->type, 1)};
  const float x[] = {1, 1, 0, 2, 2, -1};
  std::copy(std::begin(x), std::end(x), inputs[0].f32());
  auto out = run_plan(plan, inputs);
  EXPECT_EQ(out[0], (std::vector<double>{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(out[1], (std::vector<double>{0, 1, 1, 3, 4, 4}));
}

TEST(IndexedPlan, SymbolicGather) {
  const auto g = graph::parse(R"(symbol s0 = 5, at least 2
symbol s1 = 9, at least 2
source s0 = size 0 of input 0
source s1 = size 0 of input 1
input %0 : f32[s0, 8] = argument "x"
input %1 : i64[s1] = argument "i"
%2 : f32[s1, 8] = aten::index.Tensor(%0, [%1])
%3 : f32[s1, 8] = aten::relu(%2)
output %3
)");
  check_plan(*g);
}

bool writes_input(const schedule::Plan& plan, int input) {
  for (const schedule::Step& s : plan.steps) {
    auto* k = std::get_if<schedule::KernelStep>(&s);
    for (size_t b = 0; k && b < k->args.size(); ++b) {
      if (k->kernel->buffers[b].written && plan.buffers[static_cast<size_t>(k->args[b].buffer)].input == input)
        return true;
    }
  }
  return false;
}

TEST(InPlacePlan, AnUpdateOfAnInputIsOneKernel) {
  auto plan = check(R"(input %0 : f32[6, 8] = argument "x"
input %1 : f32[6, 8] = argument "y"
%2 : f32[6, 8] = aten::add.Tensor(%0, %1)
mutate input 0 = %2
)");
  EXPECT_EQ(kernels(plan), 1);
  EXPECT_TRUE(writes_input(plan, 0)) << schedule::print(plan);
}

TEST(InPlacePlan, ReadersOfTheOldContentRunFirst) {
  auto plan = check(R"(input %0 : f32[6, 8] = argument "x"
%1 : f32[6] = aten::sum.dim_IntList(%0, [1])
%2 : f32[6, 8] = aten::mul.Scalar(%0, 2)
%3 : f32[8] = aten::sum.dim_IntList(%0, [0])
mutate input 0 = %2
output %1
output %3
)");
  EXPECT_TRUE(writes_input(plan, 0)) << schedule::print(plan);
}

// Two small kernels read the counter. One makes what a call needs, the other replaces the counter after the call: they
// are not one kernel.
TEST(InPlacePlan, AReplacementKeepsApartFromWhatACallNeeds) {
  const std::string text = R"(input %0 : f32[1] = argument "n"
input %1 : f32[1, 8] = argument "x"
%2 : f32[1] = aten::mul.Scalar(%0, 3)
%3 : f32[1] = aten::add.Scalar(%0, 1)
%4 : f32[1, 1] = aten::unsqueeze(%2, 0)
%5 : f32[1, 8] = aten::mm(%4, %1)
mutate input 0 = %3
)";
  for (const char* end : {"output %5\n", "%6 : f32[1, 8] = aten::mul.Tensor(%5, %0)\noutput %6\n"}) {
    const auto plan = schedule::make_plan(*graph::parse(text + end), schedule::Options{});
    EXPECT_TRUE(writes_input(plan, 0)) << schedule::print(plan);
  }
  // Where nothing waits, they are one kernel.
  const auto plan = check(text.substr(0, text.find("%4")) + "mutate input 0 = %3\noutput %2\n");
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
  EXPECT_TRUE(writes_input(plan, 0)) << schedule::print(plan);
}

// Statistics that a call needs are one kernel. Their updates run after the last call, as one kernel, too.
TEST(InPlacePlan, SmallUpdatesAfterTheLastCallAreOneKernel) {
  const auto plan = schedule::make_plan(*graph::parse(R"(input %0 : f32[8] = argument "mean"
input %1 : f32[8] = argument "other mean"
input %2 : f32[6, 8] = argument "x"
input %3 : f32[8, 8] = argument "w"
%4 : f32[8] = aten::sum.dim_IntList(%2, [0])
%5 : f32[6, 8] = aten::sub.Tensor(%2, %4)
%6 : f32[8] = aten::add.Tensor(%0, %4, alpha=0.1)
%7 : f32[6, 8] = aten::mm(%5, %3)
%8 : f32[8] = aten::sum.dim_IntList(%7, [0])
%9 : f32[6, 8] = aten::sub.Tensor(%7, %8)
%10 : f32[8] = aten::add.Tensor(%1, %8, alpha=0.1)
%11 : f32[6, 8] = aten::mm(%9, %3)
mutate input 0 = %6
mutate input 1 = %10
output %11
)"),
                                        schedule::Options{});
  EXPECT_TRUE(writes_input(plan, 0) && writes_input(plan, 1)) << schedule::print(plan);
  EXPECT_EQ(kernels(plan), 3) << schedule::print(plan);
}

// What a backward pass needs of the inputs to which the program may write.
TEST(InPlacePlan, SmallCopiesOfInputsAreOneKernel) {
  const auto plan = check(R"(input %0 : f32[8] = argument "x"
input %1 : f32[8] = argument "y"
input %2 : f32[9] = argument "z"
%3 : f32[8] = aten::add.Tensor(%0, %1)
output %0
output %1
output %2
mutate input 1 = %3
)");
  EXPECT_EQ(kernels(plan), 3) << schedule::print(plan);
}

TEST(InPlacePlan, WhatIsReadElsewhereIsCopiedBack) {
  EXPECT_FALSE(writes_input(check(R"(input %0 : f32[6, 8] = argument "x"
%1 : f32[6, 8] = aten::flip(%0, [1])
mutate input 0 = %1
)"),
                            0));
  // The sum is needed before the first element may change, and each element after it: that is fine in one kernel.
  EXPECT_TRUE(writes_input(check(R"(input %0 : f32[6, 80] = argument "x"
%1 : f32[6, 1] = aten::sum.dim_IntList(%0, [1], true)
%2 : f32[6, 80] = aten::sub.Tensor(%0, %1)
mutate input 0 = %2
)"),
                           0));
}

// Such an update would read parts of the input after they were written.
TEST(InPlacePlan, AnUpdateFromTheInputItselfIsCopiedBack) {
  for (const char* update : {"aten::index_put(%0, [%1], %0)", "aten::scatter.src(%0, 0, %2, %6)",
                             "aten::slice_scatter(%0, %3, 0, 1)", "aten::index_copy(%0, 0, %1, %0)"}) {
    SCOPED_TRACE(update);
    EXPECT_FALSE(writes_input(check(fmt::format(R"(input %0 : f32[64, 8] = argument "x"
input %1 : i64[64] = argument "i"
%4 : i64[64, 1] = aten::unsqueeze(%1, 1)
%2 : i64[64, 8] = aten::expand(%4, [64, 8])
%3 : f32[63, 8] = aten::slice.Tensor(%0, 0, 0, 63)
%6 : f32[64, 8] = aten::neg(%0)
%5 : f32[64, 8] = {}
mutate input 0 = %5
)",
                                                update)),
                              0));
  }
}

// The value that an update begins with is what another update wrote into the input itself.
TEST(InPlacePlan, AnUpdateOfWhatWasUpdatedInPlace) {
  check(R"(input %0 : f32[3, 7] = argument "x"
input %1 : f32[3, 7] = argument "y"
input %2 : i64[2] = argument "i"
%3 : f32[7] = aten::select.int(%0, 0, 0)
%4 : f32[3, 7] = aten::select_scatter(%1, %3, 0, 0)
%5 : f32[3, 7] = aten::mul.Tensor(%4, %0)
%6 : f32[3, 2] = aten::index_select(%4, 1, %2)
%7 : f32[3, 7] = aten::index_add(%4, 1, %2, %6)
%8 : f32[3, 7] = aten::minimum(%7, %5)
mutate input 1 = %4
output %8
)");
}

// A step of an optimizer, in the kernel of a sum along the rows that an update adds one after the other: the input is
// written once, not once for each row.
TEST(InPlacePlan, AnInputIsUpdatedBesideRowsThatAreAdded) {
  check(R"(input %0 : f32[16] = argument "x"
input %1 : f32[28, 16] = argument "y"
input %2 : i64[28] = argument "i"
%3 : f32[50, 16] = aten::full([50, 16], 0, dtype=dtype.f32, device=device.cpu)
%4 : f32[50, 16] = aten::index_add(%3, 0, %2, %1)
%5 : f32[16] = aten::sum.dim_IntList(%1, [0])
%6 : f32[16] = aten::add.Tensor(%5, %0, alpha=0.5)
%7 : f32[16] = aten::add.Tensor(%0, %6, alpha=-0.25)
mutate input 0 = %7
output %4
output %6
)");
}

TEST(InPlacePlan, InputsThatExchangeTheirContent) {
  auto plan = check(R"(input %0 : f32[6] = argument "x"
input %1 : f32[6] = argument "y"
%2 : f32[6] = aten::neg(%1)
%3 : f32[6] = aten::exp(%0)
mutate input 0 = %2
mutate input 1 = %3
)");
  EXPECT_EQ(kernels(plan), 2) << schedule::print(plan);
}

TEST(InPlacePlan, ACallAfterTheUpdateWouldSeeItTwiceIfItFailed) {
  const auto g = graph::parse(R"(input %0 : f32[6, 6] = argument "x"
%1 : f32[6, 6] = aten::add.Tensor(%0, %0)
%2 : f32[6, 6] = aten::mm(%1, %1)
mutate input 0 = %1
output %2
)");
  EXPECT_FALSE(writes_input(schedule::make_plan(*g, with_dags()), 0));
}

TEST(UpdatePlan, PartOfAnInputIsWrittenInPlace) {
  auto plan = check(R"(input %0 : f32[4, 32, 8] = argument "cache"
input %1 : f32[4, 2, 8] = argument "x"
%2 : f32[4, 2, 8] = aten::mul.Scalar(%1, 2)
%3 : f32[4, 32, 8] = aten::slice_scatter(%0, %2, 1, 5, 7)
%4 : f32[4, 32] = aten::sum.dim_IntList(%3, [2])
mutate input 0 = %3
output %4
)");
  ASSERT_EQ(kernels(plan), 2) << schedule::print(plan);
  EXPECT_TRUE(writes_input(plan, 0));
  EXPECT_LT(std::get<schedule::KernelStep>(plan.steps[0]).estimated_bytes, 4 * 32 * 8 * 4);
}

TEST(UpdatePlan, PlacesOfAnInputNamedByATensor) {
  auto plan = check(R"(input %0 : f32[4, 5, 8] = argument "cache"
input %1 : i64[2] = argument "at"
input %2 : f32[4, 2, 8] = argument "x"
%3 : f32[4, 5, 8] = aten::index_copy(%0, 1, %1, %2)
mutate input 0 = %3
)");
  EXPECT_EQ(kernels(plan), 2) << schedule::print(plan);
  EXPECT_TRUE(writes_input(plan, 0));
}

TEST(UpdatePlan, RepeatedPlacesAddUpInOrder) {
  const auto g = graph::parse(R"(input %0 : f32[2, 3] = argument "x"
input %1 : i64[2, 4] = argument "i"
input %2 : f32[2, 4] = argument "v"
%5 : f32[2, 4] = aten::abs(%2)
%3 : f32[2, 3] = aten::scatter_add(%0, 1, %1, %5)
%4 : f32[2, 3] = aten::scatter_reduce.two(%0, 1, %1, %2, "amax")
output %3
output %4
)");
  std::vector<Host> inputs;
  for (const graph::Input& i : g->inputs) inputs.push_back(random_host(i.value->type, 1));
  const float x[] = {0, 10, 20, 30, 40, 50}, v[] = {1, 2, 4, 8, -1, 99, 4, 8};
  const int64_t i[] = {0, 0, 2, 0, 1, 1, 1, 2};
  std::copy(std::begin(x), std::end(x), inputs[0].f32());
  std::copy(std::begin(i), std::end(i), inputs[1].i64());
  std::copy(std::begin(v), std::end(v), inputs[2].f32());
  auto out = run_plan(schedule::make_plan(*g, with_dags()), inputs);
  EXPECT_EQ(out[0], (std::vector<double>{11, 10, 24, 30, 144, 58}));
  EXPECT_EQ(out[1], (std::vector<double>{8, 10, 20, 30, 99, 50}));
}

TEST(UpdatePlan, OnePlaceIsAddedToByEveryElement) {
  const auto g = graph::parse(R"(input %0 : f32[3] = argument "x"
%1 : i64[4] = aten::full([4], 1, dtype=dtype.i64)
%2 : f32[4] = aten::full([4], 2, dtype=dtype.f32)
%3 : f32[3] = aten::scatter_add(%0, 0, %1, %2)
output %3
)");
  std::vector<Host> inputs = {random_host(g->inputs[0].value->type, 1)};
  const float x[] = {0, 10, 20};
  std::copy(std::begin(x), std::end(x), inputs[0].f32());
  EXPECT_EQ(run_plan(schedule::make_plan(*g, with_dags()), inputs)[0], (std::vector<double>{0, 18, 20}));
}

TEST(UpdatePlan, OneElementWithoutALoop) {
  const auto g = graph::parse(R"(input %0 : f32[1] = argument "x"
%1 : i64[1] = aten::full([1], 0, dtype=dtype.i64)
%2 : f32[1] = aten::index_add(%0, 0, %1, %0)
output %2
)");
  std::vector<Host> inputs = {random_host(g->inputs[0].value->type, 1)};
  inputs[0].f32()[0] = 3;
  EXPECT_EQ(run_plan(schedule::make_plan(*g, with_dags()), inputs)[0], (std::vector<double>{6}));
}

TEST(UpdatePlan, ManyPiecesAreStoredByWhatComputesThem) {
  const auto g = graph::parse(R"(input %0 : f32[3, 4] = argument "x"
input %1 : f32[3, 2] = argument "y"
%2 : f32[3, 4] = aten::exp(%0)
%3 : f32[3, 2] = aten::neg(%1)
%4 : f32[3, 2] = aten::mul.Tensor(%3, %1)
%5 : f32[3, 18] = aten::cat([%2, %0, %3, %1, %4, %0], -1)
%6 : f32[3] = aten::sum.dim_IntList(%5, [1])
output %5
output %6
)");
  schedule::Plan plan = schedule::make_plan(*g, with_dags());
  EXPECT_EQ(calls(plan, "aten::cat"), 0) << schedule::print(plan);
  std::vector<Host> inputs = {random_host(g->inputs[0].value->type, 1), random_host(g->inputs[1].value->type, 2)};
  auto out = run_plan(plan, inputs);
  for (size_t r = 0; r < 3; ++r) {
    std::vector<double> row;
    const float *x = inputs[0].f32() + 4 * r, *y = inputs[1].f32() + 2 * r;
    for (int i = 0; i < 4; ++i) row.push_back(std::exp(x[i]));
    row.insert(row.end(), x, x + 4);
    for (int i = 0; i < 2; ++i) row.push_back(-y[i]);
    row.insert(row.end(), y, y + 2);
    for (int i = 0; i < 2; ++i) row.push_back(-y[i] * y[i]);
    row.insert(row.end(), x, x + 4);
    double sum = 0;
    for (size_t i = 0; i < 18; ++i) {
      EXPECT_NEAR(out[0][18 * r + i], row[i], 1e-5);
      sum += row[i];
    }
    EXPECT_NEAR(out[1][r], sum, 1e-4);
  }
}

TEST(UpdatePlan, ScattersFuseWithWhatTheyWrite) {
  auto plan = check(R"(input %0 : f32[5, 6, 7] = argument "x"
input %1 : i64[3] = argument "i"
input %2 : i64[2, 1] = argument "j"
input %3 : f32[2, 3, 6] = argument "v"
%4 : f32[2, 3, 6] = aten::exp(%3)
%5 : f32[5, 6, 7] = aten::index_put(%0, [%1, none, %2], %4, true)
output %5
)");
  EXPECT_EQ(kernels(plan), 4) << schedule::print(plan);  // two checks, the other elements, and these
}

}  // namespace
