#include <fmt/format.h>

#include <cmath>

#include "cuda_plans.h"
#include "schedule/lifetimes.h"
#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using graph::Builder;
using graph::Graph;
using graph::IntList;
using graph::TensorType;
using graph::Value;
using graph::ValueList;

TensorType tensor(std::vector<Expr> sizes, DType t = DType::F32) {
  TensorType type;
  type.dtype = t;
  type.strides = graph::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}

Value* input(Graph& g, std::vector<Expr> sizes, DType t = DType::F32) {
  return g.add_input(tensor(std::move(sizes), t), graph::InputKind::Argument, "x");
}

void output(Graph& g, Value* v) {
  graph::Output o;
  o.value = v;
  g.outputs.push_back(o);
}

Value* softmax(Builder& b, Value* x, int64_t dim) {
  Value* e = b("aten::exp", {b("aten::sub.Tensor", {x, b("aten::amax", {x, IntList{dim}, true})})});
  return b("aten::div.Tensor", {e, b("aten::sum.dim_IntList", {e, IntList{dim}, true})});
}

Value* layer_norm(Builder& b, Value* x, Value* weight, int64_t n) {
  Value* inverse = b("aten::div.Tensor", {b("aten::sum.dim_IntList", {x, IntList{-1}, true}), Expr(n)});
  Value* centred = b("aten::sub.Tensor", {x, inverse});
  Value* squares = b("aten::sum.dim_IntList", {b("aten::mul.Tensor", {centred, centred}), IntList{-1}, true});
  Value* scale = b("aten::rsqrt", {b("aten::div.Tensor", {squares, Expr(n)})});
  return b("aten::mul.Tensor", {b("aten::mul.Tensor", {centred, scale}), weight});
}

// A kernel never gets pointers to another device's memory.
TEST(Plan, WhatIsOnAnotherDeviceIsACallIntoAten) {
  const auto g = graph::parse(R"(input %0 : f32[64]@cuda:0 = argument "x"
input %1 : f32[64] = argument "y"
%2 : f32[64]@cuda:0 = aten::exp(%0)
%3 : f32[64]@cuda:0 = aten::neg(%2)
%4 : f32[128]@cuda:0 = aten::cat([%2, %3], 0)
%5 : f32[64] = aten::exp(%1)
output %4
output %5
)");
  int kernels = 0, calls = 0;
  const schedule::Plan plan = schedule::make_plan(*g, with_dags());
  for (const schedule::Step& s : plan.steps) {
    kernels += std::holds_alternative<schedule::KernelStep>(s);
    if (const auto* e = std::get_if<schedule::ExternStep>(&s)) {
      ++calls;
      EXPECT_NE(e->reason.find("cuda"), std::string::npos) << e->reason;
    }
  }
  EXPECT_EQ(kernels, 1);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(plan.device.type, DeviceType::CPU);  // where the kernel runs
}

TEST(Plan, WithoutAGeneratorEveryNodeIsACall) {
  const auto g = graph::parse(R"(input %0 : f32[64] = argument "x"
%1 : f32[64] = aten::exp(%0)
%2 : f32[] = aten::sum(%1)
output %2
)");
  schedule::Options options;
  options.why_no_kernels = "there is no generator";
  const schedule::Plan plan = schedule::make_plan(*g, options);
  EXPECT_EQ(plan.steps.size(), 2u);
  for (const schedule::Step& s : plan.steps)
    EXPECT_EQ(std::get<schedule::ExternStep>(s).reason, "there is no generator");
}

// In training, large values between kernels and calls do not lie in the arena.
TEST(Plan, LargeValuesAreAllocatedStepByStep) {
  const auto g = graph::parse(R"(input %0 : f32[64] = argument "x"
input %1 : f32[64, 64] = argument "y"
%2 : f32[64] = aten::exp(%0)
%3 : f32[64], _ = aten::sort(%2)
%4 : f32[64, 64] = aten::exp(%1)
%5 : f32[64, 64], _ = aten::sort(%4)
output %3
output %5
)");
  schedule::Plan plan = schedule::make_plan(*g, {});
  const auto count = [&](schedule::BufferRole role) {
    return std::ranges::count_if(plan.buffers, [&](const schedule::Buffer& b) { return b.role == role; });
  };
  EXPECT_EQ(count(schedule::BufferRole::Arena), 2);
  EXPECT_EQ(plan.arena.kept_bytes, 64 * 64 * 4);  // the two values are never alive together
  const auto returned = count(schedule::BufferRole::Returned);
  schedule::allocate_step_by_step(plan);
  EXPECT_EQ(count(schedule::BufferRole::Arena), 1);
  EXPECT_EQ(count(schedule::BufferRole::Returned), returned + 1);
  EXPECT_EQ(plan.arena.kept_bytes, 64 * 4);
}

// A result that is an input's elements is copied: by a kernel on the device that code is generated for, by a call of
// aten::clone elsewhere.
TEST(Plan, WhereThereAreNoKernelsCopiesAreCalls) {
  const std::string text = R"(input %0 : f32[64, 32]@D = argument "x"
input %1 : f32[64, 32]@D = argument "y"
%2 : f32[32, 64]@D = aten::t(%0)
output %2
output %1
mutate input 0 = %1
mutate input 1 = %0
)";
  for (const char* device : {"cpu", "cuda:1"}) {
    const auto g = on_device(device, text);
    schedule::Options options;
    options.why_no_kernels = "there is no generator";
    const schedule::Plan plan = schedule::make_plan(*g, options);
    int clones = 0;
    for (const schedule::Step& s : plan.steps) {
      const auto* e = std::get_if<schedule::ExternStep>(&s);
      EXPECT_TRUE(e || std::holds_alternative<schedule::CopyStep>(s)) << schedule::print(plan);
      clones += e && e->op->name == "aten::clone";
    }
    EXPECT_EQ(clones, 4) << schedule::print(plan);
    for (const schedule::Buffer& b : plan.buffers) EXPECT_NE(b.role, schedule::BufferRole::Arena);
    EXPECT_EQ(to_string(plan.device), device);
  }
  EXPECT_EQ(to_string(schedule::make_plan(*on_device("cuda:1", text), {}).device), "cuda:1");  // code is for the CPU
}

TEST(Plan, ReductionBesideAnEmptyDimension) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {5, 0});
  output(g, b("aten::sum.dim_IntList", {b("aten::mul.Tensor", {x, x}), IntList{0}}));
  check_plan(g);
}

TEST(Plan, AnEmptyResultNeedsNoKernel) {
  Graph g;
  Builder b(g);
  const Expr n = g.context->size_symbol("n", 2);
  TensorType x = tensor({0, 1, n});
  x.strides = {1, 1, 0};
  Value* v = g.add_input(x, graph::InputKind::Argument, "x");
  output(g, b("aten::constant_pad_nd", {v, IntList{0, -1, 0, 1}, 2.0}));
  auto plan = check_plan(g);
  EXPECT_TRUE(plan.steps.empty());
}

TEST(Plan, PointwiseChainIsOneFlatKernel) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {6, 70});
  output(g, b("aten::relu", {b("aten::add.Tensor", {b("aten::exp", {x}), x})}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1);
  const auto& k = *std::get<schedule::KernelStep>(plan.steps[0]).kernel;
  EXPECT_EQ(k.ranges.size(), 1u);
  EXPECT_TRUE(k.ranges[0].extent.is_constant(420));
  EXPECT_EQ(plan.arena.kept_bytes, 0);
}

TEST(Plan, BroadcastKeepsTwoRanges) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {6, 70});
  Value* y = input(g, {70});
  output(g, b("aten::add.Tensor", {x, y}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1);
}

TEST(Plan, SoftmaxIsOneRowKernel) {
  Graph g;
  Builder b(g);
  output(g, softmax(b, input(g, {5, 37}), -1));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
  const auto& k = *std::get<schedule::KernelStep>(plan.steps[0]).kernel;
  EXPECT_EQ(k.ranges[static_cast<size_t>(k.vector)].kind, loops::RangeKind::Inner);
  EXPECT_EQ(k.row_slots.size(), 1u) << schedule::print(plan);  // exp is kept, not computed twice
}

TEST(Plan, SoftmaxOverRowsIsAColumnKernel) {
  Graph g;
  Builder b(g);
  output(g, softmax(b, input(g, {37, 64}), 0));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
  const auto& k = *std::get<schedule::KernelStep>(plan.steps[0]).kernel;
  EXPECT_EQ(k.ranges[static_cast<size_t>(k.vector)].kind, loops::RangeKind::Parallel);
}

TEST(Plan, GeluLayerNormSoftmaxSigmoidIsOneKernel) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {9, 64});
  Value* w = input(g, {64});
  Value* h = layer_norm(b, b("aten::gelu", {x}), w, 64);
  output(g, b("aten::mul.Tensor", {softmax(b, h, -1), b("aten::sigmoid", {h})}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
}

TEST(Plan, ReductionsOverOuterAndInnerDimensions) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {3, 4, 5, 6});
  output(g, b("aten::sum.dim_IntList", {x, IntList{0, 2, 3}, false}));
  output(g, b("aten::amax", {x, IntList{1, 3}, true}));
  output(g, b("aten::sum", {x}));
  output(g, b("aten::argmax", {x}));
  output(g, b("aten::argmax", {x, Expr(2)}));
  check_plan(g);
}

TEST(Plan, BatchStatisticsNormaliseInOneKernel) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {3, 4, 5, 6});
  Value* mean = b("aten::div.Tensor", {b("aten::sum.dim_IntList", {x, IntList{0, 2, 3}, true}), Expr(90)});
  output(g, b("aten::sub.Tensor", {x, mean}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
}

TEST(Plan, GroupedNormalisationThroughViews) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {2, 6, 4, 5});
  Value* grouped = b("aten::view", {x, IntList{2, 3, 2, 20}});
  Value* mean = b("aten::div.Tensor", {b("aten::sum.dim_IntList", {grouped, IntList{2, 3}, true}), Expr(40)});
  Value* centred = b("aten::view", {b("aten::sub.Tensor", {grouped, mean}), IntList{2, 6, 4, 5}});
  Value* w = input(g, {6, 1, 1});
  output(g, b("aten::exp", {b("aten::mul.Tensor", {centred, w})}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
}

schedule::Plan transposed_add(int64_t rows, int64_t columns) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {rows, columns});
  Value* y = input(g, {columns, rows});
  output(g, b("aten::add.Tensor", {x, b("aten::permute", {y, IntList{1, 0}})}));
  return check_plan(g);
}

TEST(Plan, TransposedReadIsTiled) {
  const auto plan = transposed_add(96, 65);
  const auto& k = *std::get<schedule::KernelStep>(plan.steps[0]).kernel;
  EXPECT_EQ(k.ranges.back().kind, loops::RangeKind::Inner) << schedule::print(plan);
}

// Where both sizes hold whole vectors the code generator turns squares: both ranges stay parallel, the row is one
// block.
TEST(Plan, TransposedReadInWholeSquares) {
  const auto plan = transposed_add(96, 64);
  const auto& k = *std::get<schedule::KernelStep>(plan.steps[0]).kernel;
  ASSERT_EQ(k.ranges.size(), 2u) << schedule::print(plan);
  EXPECT_EQ(k.ranges[0].kind, loops::RangeKind::Parallel);
  EXPECT_EQ(k.ranges[1].kind, loops::RangeKind::Parallel);
  EXPECT_EQ(k.block, 64) << schedule::print(plan);
}

// Large results are stored past the caches by kernels that move more than half of what the last cache holds; not a
// row's sum beside them, nor into a caller's tensor, which may begin anywhere, nor where the size may turn out small.
TEST(Plan, ResultsOfLargeKernelsAreStreamed) {
  auto streamed = [](int64_t l3_bytes, bool mutates, bool symbolic) {
    Graph g;
    Builder b(g);
    const Expr rows = symbolic ? g.context->size_symbol("s0", 32) : Expr(32);
    Value* x = input(g, {rows, 33});
    Value* y = b("aten::relu", {input(g, {rows, 33})});
    if (symbolic) g.symbols.push_back({rows, 0, 0, false});
    if (mutates) {
      g.mutations.push_back({0, y});
    } else {
      Value* sum = b("aten::add.Tensor", {x, y});
      output(g, sum);
      output(g, b("aten::amax", {sum, IntList{1}, false}));
    }
    schedule::Options options;
    options.target.l2_bytes = 1 << 10;
    options.target.l3_bytes = l3_bytes;
    const schedule::Plan plan = schedule::make_plan(g, options);
    EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
    const auto& k = *std::get<schedule::KernelStep>(plan.steps[0]).kernel;
    return std::count_if(k.buffers.begin(), k.buffers.end(), [](const loops::KernelBuffer& x) { return x.stream; });
  };
  EXPECT_EQ(streamed(32 << 20, false, false), 0);
  EXPECT_EQ(streamed(2 << 10, false, false), 1);
  // It moves 12,800 bytes: more than half of the cache.
  EXPECT_EQ(streamed(25 << 10, false, false), 0);
  EXPECT_EQ(streamed(24 << 10, false, false), 1);
  EXPECT_EQ(streamed(2 << 10, true, false), 0);
  EXPECT_EQ(streamed(2 << 10, false, true), 0);
}

TEST(Plan, LongSumsAreSplitBySize) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {512, 1024});
  output(g, b("aten::sum", {b("aten::mul.Tensor", {x, x})}));
  output(g, b("aten::sum.dim_IntList", {x, IntList{0}, false}));
  auto plan = check_plan(g, 1e-4);
  EXPECT_EQ(kernels(plan), 4) << schedule::print(plan);
}

TEST(Plan, ValueForSeveralReadersIsStoredOnce) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {8, 32});
  Value* h = b("aten::tanh", {x});
  output(g, h);
  output(g, b("aten::sum.dim_IntList", {h, IntList{-1}, false}));
  output(g, b("aten::exp", {h}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
}

// Each row of a product would compute the quotients again. A quotient that is the same for a row is computed once by
// its loop, and a few are as fast as another access to memory.
TEST(Plan, QuotientsForManyRowsAreComputedOnce) {
  const auto first_kernel = [](const char* quotients, int64_t count, int64_t rows) {
    const auto plan = check_plan(*graph::parse(fmt::format(R"(
input %0 : f32[{0}, 49] = argument "x"
input %1 : f32[{1}, 40] = parameter "w"
%2 : f32[{0}] = aten::sum.dim_IntList(%0, [1])
%3 : f32[{2}] = aten::view(%2, [{2}])
%4 : f32[{2}] = aten::reciprocal(%3)
%5 : f32[{1}, 40] = aten::mul.Tensor(%1, %4)
%6 : f32[{1}] = aten::sum.dim_IntList(%5, [1])
output %6
)",
                                                           count, rows, quotients)));
    return std::get<schedule::KernelStep>(plan.steps[0]).ops;
  };
  using Ops = std::vector<std::string_view>;
  EXPECT_EQ(first_kernel("1, 40", 40, 128), (Ops{"aten::sum.dim_IntList", "aten::reciprocal"}));
  EXPECT_EQ(first_kernel("1, 40", 40, 32), Ops{"aten::sum.dim_IntList"});
  EXPECT_EQ(first_kernel("128, 1", 128, 128), Ops{"aten::sum.dim_IntList"});
}

TEST(Plan, ConcatenationIsComputedInPlace) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {4, 10, 8});
  Value* first = b("aten::slice.Tensor", {x, Expr(2), Expr(0), Expr(4)});
  Value* second = b("aten::slice.Tensor", {x, Expr(2), Expr(4), Expr(8)});
  Value* rotated = b("aten::cat", {ValueList{b("aten::neg", {second}), first}, Expr(-1)});
  output(g, b("aten::add.Tensor", {b("aten::mul.Tensor", {x, x}), rotated}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
}

TEST(Plan, MutationIsACopyAtTheEnd) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {16});
  Value* y = input(g, {16});
  g.mutations.push_back({0, b("aten::add.Tensor", {x, y})});
  g.mutations.push_back({1, x});  // a swap: the old value
  output(g, b("aten::mul.Tensor", {x, y}));
  check_plan(g);
}

TEST(Plan, OutputsThatShareAValueAreSeparate) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {16});
  Value* y = b("aten::exp", {x});
  output(g, y);
  output(g, y);
  output(g, y);
  output(g, x);
  auto plan = check_plan(g);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(plan.outputs[i].buffer, plan.outputs[j].buffer);
  }
}

TEST(Plan, HalfStaysWideBetweenNodes) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {4, 33}, DType::BF16);
  output(g, softmax(b, b("aten::mul.Tensor", {x, x}), -1));
  auto plan = check_plan(g, 0.02);
  EXPECT_EQ(kernels(plan), 1);
}

TEST(Plan, ZeroSizes) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {0, 7});
  output(g, b("aten::exp", {x}));
  output(g, b("aten::sum.dim_IntList", {x, IntList{0}, false}));
  output(g, b("aten::sum.dim_IntList", {x, IntList{1}, false}));
  check_plan(g);
}

TEST(Plan, SymbolicSizes) {
  Graph g;
  Expr s = g.context->size_symbol("s0", 6), t = g.context->size_symbol("s1", 20);
  g.symbols.push_back({s, 0, 0, false});
  g.symbols.push_back({t, 0, 1, false});
  Builder b(g);
  Value* x = input(g, {s, t});
  Value* w = input(g, {t});
  Value* h = b("aten::mul.Tensor", {softmax(b, x, -1), w});
  output(g, b("aten::permute", {b("aten::view", {h, IntList{s, t}}), IntList{1, 0}}));
  auto plan = check_plan(g);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
  // Other sizes than the hints.
  auto sizes = [&](Expr e) { return e == s ? int64_t{3} : int64_t{77}; };
  std::vector<Host> a = {random_host(x->type, 1, 5, sizes), random_host(w->type, 2, 5, sizes)};
  auto got = run_plan(plan, a, sizes);
  std::vector<double> xs = elements(a[0], x->type.sizes, x->type.strides, 0, DType::F32, sizes);
  std::vector<double> ws = elements(a[1], w->type.sizes, w->type.strides, 0, DType::F32, sizes);
  for (int64_t r = 0; r < 3; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < 77; ++c) sum += std::exp(xs[static_cast<size_t>(r * 77 + c)]);
    for (int64_t c = 0; c < 77; ++c) {
      double want = std::exp(xs[static_cast<size_t>(r * 77 + c)]) / sum * ws[static_cast<size_t>(c)];
      EXPECT_NEAR(got[0][static_cast<size_t>(c * 3 + r)], want, 1e-5);
    }
  }
}

TEST(Plan, CrossEntropyReadsItsRowsOnce) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {12, 40});
  Value* target = input(g, {12, 1}, DType::I64);
  Value* shifted = b("aten::sub.Tensor", {x, b("aten::amax", {x, IntList{1}, true})});
  Value* total = b("aten::log", {b("aten::sum.dim_IntList", {b("aten::exp", {shifted}), IntList{1}, true})});
  Value* logs = b("aten::sub.Tensor", {shifted, total});
  output(g, b("aten::neg", {b("aten::gather", {logs, Expr(1), target})}));
  schedule::Plan plan = schedule::make_plan(g, with_dags());
  EXPECT_EQ(kernels(plan), 2) << schedule::print(plan);  // the check of the indices and everything else
  std::vector<Host> a = {random_host(x->type, 1), random_host(target->type, 2, 40)};
  auto got = run_plan(plan, a);
  for (size_t r = 0; r < 12; ++r) {
    double sum = 0;
    for (size_t c = 0; c < 40; ++c) sum += std::exp(a[0].f32()[r * 40 + c]);
    EXPECT_NEAR(got[0][r], std::log(sum) - a[0].f32()[r * 40 + static_cast<size_t>(a[1].i64()[r])], 1e-5);
  }
  a[1].i64()[3] = 40;
  EXPECT_THROW(run_plan(plan, a), UserError);
  a[1].i64()[3] = -1;
  EXPECT_THROW(run_plan(plan, a), UserError);
}

TEST(Plan, EqualLayersAreEqualText) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {9, 64});
  Value* big = input(g, {64, 192});
  for (int i = 0; i < 3; ++i) {
    Value* product = b("aten::mm", {x, big});
    Value* part = b("aten::slice.Tensor", {product, Expr(1), Expr(64 * i), Expr(64 * i + 64)});
    x = layer_norm(b, b("aten::add.Tensor", {part, x}), input(g, {64}), 64);
  }
  output(g, x);
  auto plan = schedule::make_plan(g, with_dags());
  std::vector<std::string> texts;
  for (const schedule::Step& s : plan.steps) {
    if (auto* k = std::get_if<schedule::KernelStep>(&s)) texts.push_back(k->text);
  }
  ASSERT_EQ(texts.size(), 3u) << schedule::print(plan);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0], texts[2]);
}

TEST(Plan, ExternCallsGetWindows) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {8, 16});
  Value* h = b("aten::tanh", {x});
  Value* turned = b("aten::permute", {b("aten::slice.Tensor", {h, Expr(1), Expr(4), Expr(12)}), IntList{1, 0}});
  output(g, b("aten::mm", {turned, h}));
  auto plan = schedule::make_plan(g, with_dags());
  ASSERT_EQ(plan.steps.size(), 2u);
  const auto& call = std::get<schedule::ExternStep>(plan.steps[1]);
  const auto& view = std::get<schedule::BufferView>(call.args[0]);
  EXPECT_EQ(view.strides, (std::vector<Expr>{1, 16}));
  EXPECT_TRUE(view.offset.is_constant(4));
  EXPECT_EQ(plan.buffers[static_cast<size_t>(call.results[0])].role, schedule::BufferRole::Returned);
  EXPECT_EQ(plan.arena.kept_bytes, 8 * 16 * 4);
}

// What is computed from weights alone takes memory only from right before its reader on.
TEST(Plan, KernelsOfWeightsComeBeforeTheirReaders) {
  const auto g = graph::parse(R"(input %0 : f32[8, 64] = argument "x"
input %1 : f32[64, 64] = parameter "v"
input %2 : f32[64, 64] = parameter "w"
%3 : f32[64, 64] = aten::exp(%1)
%4 : f32[64, 64] = aten::exp(%2)
%5 : f32[64, 64] = aten::cumsum(%4, 0)
%6 : f32[8, 64] = aten::mm(%0, %3)
%7 : f32[8, 64] = aten::mm(%6, %5)
output %7
)");
  const schedule::Plan plan = schedule::make_plan(*g, with_dags());
  std::string order;
  for (const schedule::Step& s : plan.steps) {
    const auto* k = std::get_if<schedule::KernelStep>(&s);
    order += fmt::format("{} ", k ? k->ops.back() : std::get<schedule::ExternStep>(s).op->name);
  }
  EXPECT_EQ(order, "aten::exp aten::mm aten::cumsum aten::mm ");
}

TEST(Plan, CyclesThroughCallsAreNotFused) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {16, 16});
  Value* h = b("aten::tanh", {x});
  Value* product = b("aten::mm", {h, h});
  output(g, b("aten::add.Tensor", {h, product}));
  auto plan = schedule::make_plan(g, with_dags());
  EXPECT_EQ(kernels(plan), 2);
  ASSERT_EQ(plan.steps.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<schedule::ExternStep>(plan.steps[1]));
}

// When the product and the sum of both become one kernel, the call between them depends on what the sum reads, although
// it comes first.
TEST(Plan, ACallDependsOnWhatAMergedGroupReads) {
  const auto g = graph::parse(R"(input %0 : f32[64, 64] = argument "x"
input %1 : f32[64, 64] = argument "m"
input %7 : f32[128, 64] = argument "y"
%2 : f32[64, 64] = aten::mul.Tensor(%0, %0)
%3 : f32[64, 64] = aten::mm(%2, %1)
%4 : f32[64] = aten::sum.dim_IntList(%7, [0])
%5 : f32[64, 64] = aten::add.Tensor(%2, %4)
%6 : f32[64] = aten::add.Scalar(%4, 1)
output %3
output %5
output %6
)");
  check_dependencies(*g);
  EXPECT_EQ(kernels(schedule::make_plan(*g, {})), 2) << schedule::print(schedule::make_plan(*g, {}));
}

}  // namespace
