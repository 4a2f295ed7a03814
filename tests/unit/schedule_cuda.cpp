// Plans for a GPU, on a machine that has none: their kernels are verified, say how threads share the work, and compute
// what the same graph's plan for the CPU computes.
#include "cuda_plan_runs.h"
#include "graph/passes/pass.h"
#include "schedule/kernel_schedule.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

// Kernels read the parts of a wide product where they lie.
TEST(CudaPlans, PartsOfAWideProductAreNotCopied) {
  const auto g = on_device("cuda:0", R"(input %0 : f16[64, 48]@D = argument "x"
input %1 : f16[96, 48]@D = parameter "gate"
input %2 : f16[96, 48]@D = parameter "up"
%3 : f16[64, 96]@D = aten::linear(%0, %1, none)
%4 : f16[64, 96]@D = aten::silu(%3)
%5 : f16[64, 96]@D = aten::linear(%0, %2, none)
%6 : f16[64, 96]@D = aten::mul.Tensor(%4, %5)
output %6
)");
  vesta::Options user;
  user.packed_weights = 1 << 20;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  EXPECT_EQ(plan.steps.size(), 2) << schedule::print(plan);  // the product and one kernel
  EXPECT_EQ(plan.prepacked.size(), 1) << schedule::print(plan);
}

TEST(CudaPlans, PointwiseIsOneThreadAnElement) {
  const auto plan = check(R"(input %0 : f32[64, 48]@D = argument "x"
%1 : f32[64, 48]@D = aten::tanh(%0)
%2 : f32[64, 48]@D = aten::mul.Tensor(%1, %0)
output %2
)");
  const loops::Kernel& k = only_kernel(plan);
  EXPECT_EQ(k.threads.team, 1);
  EXPECT_GT(k.threads.block, 0);
}

// Blocks of a kernel that only stores are larger: small ones end faster than others start.
TEST(CudaPlans, BlocksThatOnlyStoreAreLarger) {
  const auto threads = [](const char* value) {
    return only_kernel(check(fmt::format(R"(input %0 : f32[1024, 1024]@D = argument "x"
%1 : f32[1024, 1024]@D = {}
output %1
)",
                                         value)))
        .threads.block;
  };
  EXPECT_EQ(threads("aten::full([1024, 1024], 0.0, dtype=dtype.f32, device=device.cuda:0)"), 512);
  EXPECT_EQ(threads("aten::tanh(%0)"), 256);
}

// One thread's elements in registers, of each row that is kept.
int64_t held(const loops::Kernel& k) { return k.threads.held * k.threads.each; }

TEST(CudaPlans, ShortRowsShareABlock) {
  const auto plan = check(softmax_text(512, 96));
  const loops::Kernel& k = only_kernel(plan);
  EXPECT_EQ(k.threads.team, 32);
  EXPECT_EQ(k.threads.each, 2);
  EXPECT_EQ(held(k), 4);
}

TEST(CudaPlans, RowsAreHeldInRegisters) {
  const auto plan = check(softmax_text(3, 4096));
  const loops::Kernel& k = only_kernel(plan);
  EXPECT_EQ(k.threads.team, k.threads.block);
  EXPECT_EQ(k.threads.each, 4);
  EXPECT_EQ(k.threads.team * held(k), 4096);
  EXPECT_FALSE(k.row_slots.empty());  // x is read once
}

// Three blocks of a multiprocessor where they have room, or two.
TEST(CudaPlans, LongerRowsAreKeptInSharedMemory) {
  for (const auto& [columns, threads] : {std::pair(9000, 256), {19000, 512}, {39000, 1024}}) {
    schedule::Options options = for_device(DeviceType::CUDA);
    options.target = machine::cuda_target_of(80);
    const auto plan = schedule::make_plan(*on_device("cuda:0", softmax_text(400, columns)), options);
    const loops::Kernel& k = only_kernel(plan);
    EXPECT_TRUE(k.threads.shared);
    EXPECT_EQ(k.threads.block, threads);
    EXPECT_EQ(k.row_slots.size(), 1u);
    EXPECT_EQ(loops::shared_bytes(k), 4 * columns);
  }
}

// The row keeps the elements as they are read, not as F32.
TEST(CudaPlans, HalvesAreKeptAsTheyAre) {
  const auto plan =
      schedule::make_plan(*on_device("cuda:0", softmax_text(40, 8192, "bf16")), for_device(DeviceType::CUDA));
  const loops::Kernel& k = only_kernel(plan);
  ASSERT_FALSE(k.row_slots.empty());
  EXPECT_EQ(k.row_slots[0], DType::BF16);
}

TEST(CudaPlans, LongRowsAreReadAgain) {
  const auto plan = schedule::make_plan(*on_device("cuda:0", softmax_text(40, 400'000)), for_device(DeviceType::CUDA));
  EXPECT_EQ(only_kernel(plan).threads.held, 0);
  EXPECT_FALSE(only_kernel(plan).threads.shared);
  EXPECT_TRUE(only_kernel(plan).row_slots.empty());
}

TEST(CudaPlans, ElementsSideBySideAreTakenTogetherWhereMemoryIsAligned) {
  const auto text = [](const char* aligned) {
    return fmt::format(R"(input %0 : f32[4096, 4096]@D = argument "x"{}
%1 : f32[4096, 4096]@D = aten::tanh(%0)
output %1
)",
                       aligned);
  };
  schedule::Options options = for_device(DeviceType::CUDA);
  const auto kernel_of = [&](const std::string& t) {
    return loops::print(only_kernel(schedule::make_plan(*on_device("cuda:0", t), options)));
  };
  const std::string any = kernel_of(text("")), wide = kernel_of(text(" aligned 16"));
  EXPECT_NE(any.find("buffer b0 f32 read\n"), std::string::npos) << any;
  EXPECT_NE(wide.find("buffer b0 f32 read aligned 16\n"), std::string::npos) << wide;
  EXPECT_NE(wide.find("each 4\n"), std::string::npos) << wide;
}

TEST(CudaPlans, ColumnsGoDownTogether) {
  const auto plan = check(R"(input %0 : f32[200, 300]@D = argument "x"
%1 : f32[300]@D = aten::sum.dim_IntList(%0, [0], false)
output %1
)");
  const loops::Kernel& k = only_kernel(plan);
  EXPECT_TRUE(k.threads.across);
  EXPECT_EQ(k.threads.block / k.threads.team, 8);  // 32 bytes, so that more blocks have some
  EXPECT_EQ(k.threads.team, 32);                   // all threads together are few, so each has few elements
}

// A thread reads neighbouring columns with one access where a column's elements are read once. A variance reads them
// again.
TEST(CudaPlans, ThreadsTakeSeveralOfManyColumns) {
  const auto threads = [](const char* dtype, const char* nodes) {
    std::string text = R"(input %0 : T[1024, 131072]@D = argument "x" aligned 16
)";
    text += nodes;
    for (size_t at; (at = text.find("T[")) != std::string::npos;) text.replace(at, 1, dtype);
    return only_kernel(schedule::make_plan(*on_device("cuda:0", text), for_device(DeviceType::CUDA))).threads;
  };
  const char* const sum = R"(%1 : T[131072]@D = aten::sum.dim_IntList(%0, [0], false)
output %1
)";
  const char* const apart = R"(%1 : T[1, 131072]@D = aten::sum.dim_IntList(%0, [0], true)
%2 : T[1024, 131072]@D = aten::sub.Tensor(%0, %1)
%3 : T[1024, 131072]@D = aten::mul.Tensor(%2, %2)
%4 : T[131072]@D = aten::sum.dim_IntList(%3, [0], false)
output %4
)";
  EXPECT_EQ(threads("bf16", sum).each, 8);
  EXPECT_EQ(threads("f32", sum).each, 4);
  EXPECT_EQ(threads("bf16", apart).each, 1);
  for (const char* text : {sum, apart}) EXPECT_TRUE(threads("bf16", text).across);
}

TEST(CudaPlans, ShortColumnsHaveManyThreadsWhereTheyAreFew) {
  const auto team = [](int columns) {
    const auto text = fmt::format(R"(input %0 : f32[32, {0}]@D = argument "x" aligned 16
%1 : f32[{0}]@D = aten::sum.dim_IntList(%0, [0], false)
output %1
)",
                                  columns);
    return only_kernel(schedule::make_plan(*on_device("cuda:0", text), for_device(DeviceType::CUDA))).threads.team;
  };
  EXPECT_EQ(team(2048), 8);
  EXPECT_EQ(team(32000), 2);
}

TEST(CudaPlans, ColumnsAreOneThreadEach) {
  const auto plan = check(R"(input %0 : f32[7, 300]@D = argument "x"
%1 : f32[300]@D = aten::sum.dim_IntList(%0, [0], false)
output %1
)");
  EXPECT_EQ(only_kernel(plan).threads.team, 1);
}

TEST(CudaPlans, KernelsCheckTheirPlaces) {
  const auto g = on_device("cuda:0", R"(input %0 : f32[7, 300]@D = parameter "w"
input %1 : i64[5]@D = argument "i"
%2 : f32[5, 300]@D = aten::embedding(%0, %1, -1, false, false)
%3 : f32[5, 300]@D = aten::exp(%2)
output %3
)");
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  const loops::Kernel& k = only_kernel(plan);
  const auto again = loops::parse_kernel(loops::print(k));
  EXPECT_EQ(loops::print(*again), loops::print(k));
  std::vector<float> w(2100, 1), out(1500);
  std::vector<int64_t> at = {0, 6, 3, 1, 1};
  std::vector<void*> buffers;
  for (const loops::KernelBuffer& b : k.buffers)
    buffers.push_back(b.written               ? static_cast<void*>(out.data())
                      : b.dtype == DType::I64 ? static_cast<void*>(at.data())
                                              : w.data());
  loops::interpret(k, buffers, {}, 0, 1500);
  EXPECT_NEAR(out[1499], 2.7183F, 1e-3F);
  for (const int64_t wrong : {int64_t{7}, int64_t{-1}}) {
    at[2] = wrong;
    EXPECT_THROW(loops::interpret(k, buffers, {}, 0, 1500), InternalError);
  }
}

// The pieces of a concatenation are read where they are, and only there their places are checked.
TEST(CudaPlans, PlacesAreCheckedWhereTheyAreRead) {
  check(R"(input %0 : f32[7]@D = parameter "w"
input %1 : f32[5]@D = argument "x"
%2 : i64[5]@D = aten::arange.start_step(0, 5, 1)
%3 : i64[5]@D = aten::add.Tensor(%2, 2)
%4 : f32[5]@D = aten::index.Tensor(%0, [%3])
%5 : f32[10]@D = aten::cat([%1, %4], 0)
output %5
)");
}

TEST(CudaPlans, TensorsOfTheHostAreATens) {
  const auto g = on_device("cuda:0", R"(input %0 : f32[8]@D = argument "x"
input %1 : f32[8] = argument "y"
%2 : f32[8]@D = aten::tanh(%0)
%3 : f32[8] = aten::tanh(%1)
output %2
output %3
)");
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  ASSERT_EQ(plan.steps.size(), 2);
  EXPECT_EQ(kernels(plan), 1);
}

TEST(CudaPlans, KernelsKeepTheirThreadsInTheText) {
  const auto plan = check(softmax_text(512, 96));
  const loops::Kernel& k = only_kernel(plan);
  const std::string text = loops::print(k);
  const auto parsed = loops::parse_kernel(text);
  EXPECT_EQ(loops::print(*parsed), text);
  EXPECT_NE(text.find("threads 256 team 32 held 2 each 2\n"), std::string::npos) << text;
}

// A decode step's perceptron: both products of one input in one kernel, the activation and the residual in theirs.
TEST(CudaPlans, ProductsOfOneRowFuse) {
  const auto g = on_device("cuda:0", R"(input %0 : bf16[1, 1, 512]@D = argument "x"
input %1 : bf16[1024, 512]@D = parameter "gate"
input %2 : bf16[1024, 512]@D = parameter "up"
input %3 : bf16[512, 1024]@D = parameter "down"
input %4 : bf16[512]@D = parameter "b"
%5 : bf16[1, 1, 1024]@D = aten::linear(%0, %1, none)
%6 : bf16[1, 1, 1024]@D = aten::linear(%0, %2, none)
%7 : bf16[1, 1, 1024]@D = aten::silu(%5)
%8 : bf16[1, 1, 1024]@D = aten::mul.Tensor(%7, %6)
%9 : bf16[1, 1, 512]@D = aten::linear(%8, %3, %4)
%10 : bf16[1, 1, 512]@D = aten::add.Tensor(%9, %0)
output %10
)");
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  EXPECT_EQ(plan.steps.size(), 2u) << schedule::print(plan);
  EXPECT_EQ(kernels(plan), 2);
}

// Queries, keys and values: one kernel reads three weights, each row of one of them.
TEST(CudaPlans, ProductsOfOneRowThatAreReadElsewhereAreOneKernel) {
  const auto g = on_device("cuda:0", projections_text());
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  ASSERT_EQ(kernels(plan), 3) << schedule::print(plan);
  const auto& first = std::get<schedule::KernelStep>(plan.steps.at(0));
  EXPECT_EQ(hint(first.items), 256 + 64 + 64) << first.text;
  std::vector<Host> inputs;
  for (const graph::Input& i : g->inputs)
    inputs.push_back(random_host(i.value->type, static_cast<uint32_t>(inputs.size())));
  std::vector<std::vector<double>> want;
  const auto read = [](const Host& h) { return elements(h, h.type.sizes, h.type.strides, 0, h.type.dtype); };
  const auto x = read(inputs[0]);
  for (const size_t w : {1, 2, 3}) {
    want.emplace_back();
    const auto rows = read(inputs[w]);
    for (size_t at = 0; at < rows.size(); ++at) {
      if (at % 512 == 0) want.back().push_back(0);
      want.back().back() += rows[at] * x[at % 512];
    }
  }
  const auto got = run_plan(plan, inputs);
  for (size_t i = 0; i < 256; ++i) {
    const double y = want[0][i] * want[0][(i + 128) % 256];
    EXPECT_NEAR(got[0][i], y, 3e-2 * (1 + std::abs(y)));
  }
  for (size_t i = 0; i < 128; ++i) EXPECT_NEAR(got[1][i], want[1 + i / 64][i % 64], 1e-2 * (1 + std::abs(got[1][i])));
}

// Quantising, per tensor and per row, and what comes back.
TEST(CudaPlans, Float8IsConvertedInKernels) {
  const std::string text = R"(input %0 : bf16[64, 4096]@D = argument "x"
%1 : bf16[64, 4096]@D = aten::abs(%0)
%2 : bf16[64, 1]@D = aten::amax(%1, [1], true)
%3 : f32[64, 1]@D = aten::_to_copy(%2, dtype=dtype.f32)
%4 : f32[64, 1]@D = aten::div.Tensor(%3, 448)
%5 : f32[64, 1]@D = aten::clamp(%4, 1e-12, none)
%6 : f32[64, 4096]@D = aten::div.Tensor(%0, %5)
%7 : f32[64, 4096]@D = aten::clamp(%6, -448, 448)
%8 : f8e4m3fn[64, 4096]@D = aten::_to_copy(%7, dtype=dtype.f8e4m3fn)
output %8
output %5
)";
  const auto plan = schedule::make_plan(*on_device("cuda:0", text), for_device(DeviceType::CUDA));
  EXPECT_EQ(plan.steps.size(), 1u) << schedule::print(plan);
  EXPECT_EQ(kernels(plan), 1);
  // Both conversions in one kernel; a value that goes to float8 and back is rounded.
  const std::string back = R"(input %0 : f32[64, 48]@D = argument "x"
%1 : f8e5m2[64, 48]@D = aten::_to_copy(%0, dtype=dtype.f8e5m2)
%2 : f8e5m2[48, 64]{1, 48}@D = aten::permute(%1, [1, 0])
%3 : f32[48, 64]{1, 48}@D = aten::_to_copy(%2, dtype=dtype.f32)
%4 : f32[48, 64]{1, 48}@D = aten::exp(%3)
output %4
)";
  const auto gpu = schedule::make_plan(*on_device("cuda:0", back), for_device(DeviceType::CUDA));
  EXPECT_NE(loops::print(only_kernel(gpu)).find("cast f8e5m2"), std::string::npos);
  // On the CPU these are calls into ATen.
  const auto cpu = schedule::make_plan(*on_device("cpu", back), for_device(DeviceType::CPU));
  EXPECT_EQ(kernels(cpu), 1) << schedule::print(cpu);
  EXPECT_EQ(loops::print(only_kernel(cpu)).find("f8"), std::string::npos);
}

// The products are calls; what is done with them is one kernel.
TEST(CudaPlans, ScaledProductsAndTheirActivation) {
  const auto g = on_device("cuda:0", R"(input %0 : f8e4m3fn[256, 4096]@D = argument "a"
input %1 : f8e4m3fn[7168, 4096]@D = parameter "b1"
input %2 : f8e4m3fn[7168, 4096]@D = parameter "b2"
input %3 : f32[256, 1]@D = argument "sa"
input %4 : f32[1, 7168]@D = parameter "sb"
%5 : f8e4m3fn[4096, 7168]{1, 4096}@D = aten::t(%1)
%6 : bf16[256, 7168]@D = aten::_scaled_mm(%0, %5, %3, %4, none, none, dtype.bf16)
%7 : bf16[256, 7168]@D = aten::silu(%6)
%8 : f8e4m3fn[4096, 7168]{1, 4096}@D = aten::t(%2)
%9 : bf16[256, 7168]@D = aten::_scaled_mm(%0, %8, %3, %4, none, none, dtype.bf16)
%10 : bf16[256, 7168]@D = aten::mul.Tensor(%7, %9)
output %10
)");
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  EXPECT_EQ(plan.steps.size(), 3u) << schedule::print(plan);
  EXPECT_EQ(kernels(plan), 1);
}

// A step of SGD, whose rate is a number in the CPU's memory.
const char* const kUpdate = R"(input %0 : f32[64, 48]@D = argument "p"
input %1 : f32[64, 48]@D = argument "g"
input %2 : f64[] = argument "lr"
%3 : f32[64, 48]@D = aten::mul.Tensor(%1, %2)
%4 : f32[64, 48]@D = aten::sub.Tensor(%0, %3)
mutate input 0 = %4
)";

TEST(CudaPlans, NumbersOfTheCpuAreArguments) {
  const auto g = on_device("cuda:0", kUpdate);
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  const loops::Kernel& k = only_kernel(plan);
  const std::string text = loops::print(k);
  EXPECT_NE(text.find(" f64 read value\n"), std::string::npos) << text;
  EXPECT_EQ(loops::print(*loops::parse_kernel(text)), text);
  EXPECT_EQ(to_string(plan.device), "cuda:0");

  for (const char* op : {"mul.Tensor(%0, %1)", "mul.Tensor(%1, %0)", "atan2(%0, %1)", "sub.Tensor(%0, %1)",
                         "maximum(%1, %0)", "where.self(%2, %0, %1)", "lerp.Tensor(%0, %0, %1)"})
    for (const char* dtype : {"f32", "f64"}) {
      const auto one = check(fmt::format(
          "input %0 : f32[300, 70]@D = argument \"x\"\ninput %1 : {}[] = argument \"s\"\n%2 : bool[300, 70]@D = "
          "aten::gt.Scalar(%0, 0)\n%3 : f32[300, 70]@D = aten::{}\noutput %3\n",
          std::string_view(op).starts_with("lerp") || std::string_view(op).starts_with("where") ? "f32" : dtype, op));
      EXPECT_EQ(kernels(one), 1);
    }
  // Moved to the GPU by the program.
  const auto moved = on_device("cuda:0", R"(input %0 : f32[40, 96]@D = argument "x"
input %1 : f32[] = argument "scale"
%2 : f32[]@D = aten::_to_copy(%1, dtype=none, layout=none, device=device.cuda:0)
%3 : f32[40, 96]@D = aten::mul.Tensor(%0, %2)
%4 : f32[40]@D = aten::sum.dim_IntList(%3, [1], false)
output %4
)");
  const auto rows = schedule::make_plan(*moved, for_device(DeviceType::CUDA));
  EXPECT_EQ(rows.steps.size(), 1u) << schedule::print(rows);
  EXPECT_NE(loops::print(only_kernel(rows)).find("read value"), std::string::npos);
}

TEST(CudaPlans, NumbersThatCallsReturn) {
  const auto g = on_device("cuda:0", R"(input %0 : f32[64]@D = argument "x"
input %1 : f32[] = argument "step"
%2 : f32[] = aten::exp(%1)
%3 : f32[64]@D = aten::mul.Tensor(%0, %2)
output %3
output %2
)");
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  ASSERT_EQ(plan.steps.size(), 2u) << schedule::print(plan);
  EXPECT_EQ(std::get<schedule::ExternStep>(plan.steps[0]).op->name, "aten::exp");
  EXPECT_NE(std::get<schedule::KernelStep>(plan.steps[1]).text.find("read value"), std::string::npos);
}

TEST(CudaPlans, WhatIsNoNumberOfTheCpuIsNoArgument) {
  const auto calls = [](const char* text) {
    const auto plan = schedule::make_plan(*on_device("cuda:0", text), for_device(DeviceType::CUDA));
    return plan.steps.size() == 1 && std::holds_alternative<schedule::ExternStep>(plan.steps[0]);
  };
  EXPECT_TRUE(calls(R"(input %0 : c64[8]@D = argument "x"
input %1 : c64[] = argument "s"
%2 : c64[8]@D = aten::mul.Tensor(%0, %1)
output %2
)"));
  EXPECT_TRUE(calls(R"(input %0 : f32[8]@D = argument "x"
input %1 : f32[] = argument "s"
input %2 : f32[] = argument "t"
%3 : f32[8]@D = aten::clamp.Tensor(%0, %1, %2)
output %3
)"));
  EXPECT_TRUE(calls(R"(input %0 : f32[8]@D = argument "x"
input %1 : f32[]@cuda:1 = argument "s"
%2 : f32[8]@D = aten::mul.Tensor(%0, %1)
output %2
)"));
}

TEST(CudaPlans, WrongArgumentsDoNotVerify) {
  const auto plan = schedule::make_plan(*on_device("cuda:0", kUpdate), for_device(DeviceType::CUDA));
  const auto broken = [&](auto&& change) {
    auto k = loops::parse_kernel(loops::print(only_kernel(plan)));
    change(*k);
    EXPECT_THROW(loops::verify(*k), Error) << loops::print(*k);
  };
  broken([](loops::Kernel& k) { k.threads = {}; });
  broken([](loops::Kernel& k) {
    for (loops::KernelBuffer& b : k.buffers) b.value = true;
  });
  broken([](loops::Kernel& k) {
    for (loops::Instr& i : k.instrs)
      if (i.buffer >= 0 && k.buffers[static_cast<size_t>(i.buffer)].value) i.index = Expr(1);
  });
}

TEST(CudaPlans, WrongThreadsDoNotVerify) {
  const auto plan = check(softmax_text(512, 96));
  const auto broken = [&](auto&& change) {
    auto k = loops::parse_kernel(loops::print(only_kernel(plan)));
    change(*k);
    EXPECT_THROW(loops::verify(*k), Error);
  };
  broken([](loops::Kernel& k) { k.threads.block = 100; });
  broken([](loops::Kernel& k) { k.threads.team = 24; });
  broken([](loops::Kernel& k) { k.threads.held = 1; });
  broken([](loops::Kernel& k) { k.threads.each = 3; });
  broken([](loops::Kernel& k) { k.threads.across = true; });
  broken([](loops::Kernel& k) { k.threads.held = 0; });
  broken([](loops::Kernel& k) { k.threads.shared = true; });
  broken([](loops::Kernel& k) { k.serial = true; });
}

// ---- Additions at places that may come again

// Where an index tensor says, onto what a kernel before it has put there.
const char* const kAdditions[] = {
    R"(input %0 : f32[7, 300]@D = argument "x"
input %1 : i64[40]@D = argument "i"
input %2 : f32[40, 300]@D = argument "y"
%3 : f32[7, 300]@D = aten::index_add(%0, 0, %1, %2)
output %3
)",
    R"(input %0 : f32[7, 300]@D = argument "x"
input %1 : i64[40]@D = argument "i"
input %2 : f32[7, 40]@D = argument "y"
%3 : f32[7, 40]@D = aten::tanh(%2)
%4 : f32[7, 300]@D = aten::index_add(%0, 1, %1, %3, alpha=3)
output %4
output %3
)",
    R"(input %0 : f32[9, 30, 6]@D = argument "x"
input %1 : i64[4, 20, 6]@D = argument "i"
input %2 : f32[8, 25, 6]@D = argument "y"
%3 : f32[9, 30, 6]@D = aten::scatter_add(%0, 1, %1, %2)
%4 : f32[9, 30, 6]@D = aten::exp(%3)
output %4
)",
    R"(input %0 : f32[9, 30]@D = argument "x"
input %1 : i64[9, 20]@D = argument "i"
input %2 : f32[9, 20]@D = argument "y"
%3 : f32[9, 30]@D = aten::scatter_reduce.two(%0, 0, %1, %2, "sum", include_self=true)
output %3
)",
    R"(input %0 : f32[9, 30, 8]@D = argument "x"
input %1 : i64[6]@D = argument "i"
input %2 : i64[4, 1]@D = argument "j"
input %3 : f32[8]@D = argument "y"
%4 : f32[9, 30, 8]@D = aten::index_put(%0, [%1, %2], %3, true)
output %4
)",
    // All of them add the same values at the same places.
    R"(input %0 : f32[9]@D = argument "x"
%1 : i64[50]@D = aten::full([50], 3, dtype=dtype.i64, device=device.cuda:0)
%2 : f32[50]@D = aten::full([50], 1, dtype=dtype.f32, device=device.cuda:0)
%3 : f32[9]@D = aten::scatter_add(%0, 0, %1, %2)
output %3
)",
    R"(input %0 : f64[64, 32]@D = argument "x"
input %1 : i32[40]@D = argument "i"
input %2 : f64[40, 32]{1, 40}@D = argument "y"
%3 : f64[64, 32]@D = aten::index_add(%0, 0, %1, %2)
output %3
)",
    R"(input %0 : i64[9, 16]@D = argument "x"
input %1 : i64[5, 16]@D = argument "i"
input %2 : i64[5, 16]@D = argument "y"
%3 : i64[9, 16]@D = aten::scatter_add(%0, 0, %1, %2)
output %3
)"};

bool adds(const schedule::Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const schedule::Step& s) {
    const auto* k = std::get_if<schedule::KernelStep>(&s);
    return k && k->text.find("storeadd") != std::string::npos;
  });
}

TEST(CudaPlans, AdditionsAreAtomic) {
  for (const char* text : kAdditions) {
    SCOPED_TRACE(text);
    const auto plan = check(text);
    EXPECT_TRUE(adds(plan)) << schedule::print(plan);
    for (const schedule::Step& s : plan.steps) {
      const auto& k = std::get<schedule::KernelStep>(s);
      EXPECT_EQ(loops::print(*loops::parse_kernel(k.text)), k.text);
      const auto& ranges = k.kernel->ranges;
      const auto inner = [](const loops::Range& r) { return r.kind == loops::RangeKind::Inner; };
      EXPECT_TRUE(std::none_of(ranges.begin(), ranges.end(), inner)) << k.text;
    }
  }
}

// Their order, and with it the last bits of a sum, is another in each run.
TEST(CudaPlans, AdditionsAreCallsWhereAllMustBeDeterministic) {
  for (const char* text : kAdditions) {
    schedule::Options options = for_device(DeviceType::CUDA);
    options.deterministic = true;
    const auto plan = schedule::make_plan(*on_device("cuda:0", text), options);
    EXPECT_FALSE(adds(plan)) << schedule::print(plan);
    const auto is_call = [](const schedule::Step& s) { return std::holds_alternative<schedule::ExternStep>(s); };
    EXPECT_TRUE(std::any_of(plan.steps.begin(), plan.steps.end(), is_call));
  }
}

// One gradient of two tables is one kernel. Half-precision rows are added up in float32, in one row for each index of
// the batch; where the table is small beside the pairs of indices, ATen's kernel does it.
TEST(CudaPlans, GradientsOfEmbeddings) {
  constexpr int64_t kRows = 120, kWidth = 96, kPadding = 3;
  const auto plan_of = [](const char* dtype, double tolerance) {
    const auto g = on_device("cuda:0", fmt::format(R"(input %0 : {0}[4, 30, 96]@D = argument "g"
input %1 : i64[4, 30]@D = argument "i"
input %2 : i64[4, 30]@D = argument "j"
%3 : {0}[50, 96]@D = aten::embedding_dense_backward(%0, %1, 50, 3, false)
%4 : {0}[40, 96]@D = aten::embedding_dense_backward(%0, %2, 40, -1, false)
output %3
output %4
)",
                                                   dtype));
    const Options user;
    graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
    auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
    std::vector<Host> inputs;
    for (const graph::Input& i : g->inputs) inputs.push_back(random_host(i.value->type, 7));
    const graph::TensorType& type = inputs[0].type;
    const auto rows = elements(inputs[0], type.sizes, type.strides, 0, type.dtype);
    const auto found = run_plan(plan, inputs);
    for (size_t table = 0; table < 2; ++table) {
      std::vector<double> expected(found.at(table).size());
      for (int64_t r = 0; r < kRows; ++r) {
        const int64_t index = inputs[table + 1].i64()[r];
        for (int64_t c = 0; c < kWidth && (table == 1 || index != kPadding); ++c)
          expected.at(static_cast<size_t>(index * kWidth + c)) += rows.at(static_cast<size_t>(r * kWidth + c));
      }
      for (size_t k = 0; k < expected.size(); ++k)
        EXPECT_NEAR(found.at(table)[k], expected[k], tolerance * (1 + std::abs(expected[k]))) << dtype << " " << k;
    }
    return plan;
  };
  const auto plan = plan_of("f32", 1e-5);
  EXPECT_TRUE(adds(plan));
  EXPECT_LE(kernels(plan), 3) << schedule::print(plan);
  EXPECT_EQ(kernels(plan), plan.steps.size());
  const auto narrow = plan_of("bf16", 1.0 / 256);
  EXPECT_TRUE(adds(narrow));
  EXPECT_EQ(kernels(narrow), narrow.steps.size()) << schedule::print(narrow);
}

TEST(CudaPlans, GradientsOfSmallTablesInHalfTypesAreCalls) {
  const auto g = on_device("cuda:0", R"(input %0 : bf16[4, 30, 96]@D = argument "g"
input %1 : i64[4, 30]@D = argument "i"
%2 : bf16[30, 96]@D = aten::embedding_dense_backward(%0, %1, 30, -1, false)
output %2
)");
  const Options user;
  graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
  EXPECT_EQ(kernels(schedule::make_plan(*g, for_device(DeviceType::CUDA))), 0);
}

// An input that is mutated is added to where it is, after every call that may raise.
TEST(CudaPlans, AdditionsInPlace) {
  const std::string text = R"(input %0 : f32[7, 300]@D = argument "x"
input %1 : i64[40]@D = argument "i"
input %2 : f32[40, 300]@D = argument "y"
%3 : f32[40, 300]@D = aten::tanh(%2)
%4 : f32[7, 300]@D = aten::index_add(%0, 0, %1, %3)
mutate input 0 = %4
)";
  const auto steps_of = [](const std::string& t) {
    return schedule::make_plan(*on_device("cuda:0", t), for_device(DeviceType::CUDA)).steps;
  };
  const auto plan = check(text);
  EXPECT_EQ(kernels(plan), 1) << schedule::print(plan);
  EXPECT_EQ(std::get<schedule::CopyStep>(plan.steps.at(1)).from.buffer, 0);
  // A node that reads the sums reads them from the input.
  EXPECT_EQ(kernels(check(text + "%5 : f32[7, 300]@D = aten::exp(%4)\noutput %5\n")), 2);
  // A node that reads the old elements, returns them, or passes the sums to a call gets a copy.
  EXPECT_EQ(kernels(check(text + "%5 : f32[7, 300]@D = aten::exp(%0)\noutput %5\n")), 2);
  EXPECT_EQ(kernels(check(text + "output %4\n")), 2);
  const auto product = [&](int of, int rows) {
    return text + fmt::format(
                      "%5 : f32[300, {1}]{{1, 300}}@D = aten::t(%{0})\n%6 : f32[{1}, {1}]@D = aten::mm(%{0}, "
                      "%5)\noutput %6\n",
                      of, rows);
  };
  EXPECT_EQ(steps_of(product(4, 7)).size(), 4u);
  const auto later = steps_of(product(2, 40));
  ASSERT_EQ(later.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<schedule::ExternStep>(later[0]));
}

// Each step of these would be rounded, or is no sum.
TEST(CudaPlans, OtherAdditionsAreCalls) {
  for (const char* text :
       {"input %0 : bf16[7, 300]@D = argument \"x\"\ninput %1 : i64[40]@D = argument \"i\"\ninput %2 : bf16[40, "
        "300]@D = argument \"y\"\n%3 : bf16[7, 300]@D = aten::index_add(%0, 0, %1, %2)\noutput %3\n",
        "input %0 : f32[9, 30]@D = argument \"x\"\ninput %1 : i64[9, 20]@D = argument \"i\"\ninput %2 : f32[9, "
        "20]@D = argument \"y\"\n%3 : f32[9, 30]@D = aten::scatter_reduce.two(%0, 0, %1, %2, \"amax\", "
        "include_self=true)\noutput %3\n"}) {
    const auto plan = schedule::make_plan(*on_device("cuda:0", text), for_device(DeviceType::CUDA));
    EXPECT_EQ(plan.steps.size(), 1u) << schedule::print(plan);
    EXPECT_TRUE(std::holds_alternative<schedule::ExternStep>(plan.steps[0]));
  }
}

// ---- Scans

std::string scan_text(int64_t rows, int64_t columns, int dim, const char* dtype = "f32") {
  return fmt::format(
      "input %0 : {0}[{1}, {2}]@D = argument \"x\"\n%1 : {0}[{1}, {2}]@D = aten::exp(%0)\n%2 : {0}[{1}, {2}]@D = "
      "aten::cumsum(%1, {3})\n%3 : {0}[{1}, {2}]@D = aten::mul.Tensor(%2, 2)\noutput %3\n",
      dtype, rows, columns, dim);
}

TEST(CudaPlans, RowsAreScannedByWarpsOrBlocks) {
  const auto threads_of = [](int64_t rows, int64_t columns, int dim) {
    const auto plan = check(scan_text(rows, columns, dim));
    const loops::Kernel& k = only_kernel(plan);
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(k))), loops::print(k));
    return k.threads;
  };
  EXPECT_EQ(threads_of(5000, 96, 1).team, 32);
  EXPECT_EQ(threads_of(5000, 7, 1).team, 8);
  EXPECT_EQ(threads_of(64, 4096, 1).team, 256);
  EXPECT_EQ(threads_of(64, 4096, 1).each, 4);
  EXPECT_EQ(threads_of(64, 1001, 1).each, 1);
  EXPECT_EQ(threads_of(32, 70, 0).team, 1);
  EXPECT_EQ(threads_of(1, 1, 1).team, 1);
}

// One long row is scanned by many blocks of ATen's; what surrounds it is still a kernel.
TEST(CudaPlans, OneLongRowIsACall) {
  const auto g = on_device("cuda:0", scan_text(1, 1 << 20, 1));
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  EXPECT_EQ(plan.steps.size(), 3u) << schedule::print(plan);
  EXPECT_EQ(kernels(plan), 2);
}

TEST(CudaPlans, TeamsScanFewColumns) {
  const auto threads_of = [](const std::string& text) {
    const loops::Kernel k = *loops::parse_kernel(loops::print(only_kernel(check(text))));
    return k.threads;
  };
  const loops::Threads few = threads_of(scan_text(4096, 96, 0));
  EXPECT_TRUE(few.across);
  EXPECT_EQ(few.block / few.team, 8);  // 32 bytes
  EXPECT_EQ(few.team, 32);
  EXPECT_EQ(few.each, 16);
  EXPECT_EQ(threads_of(scan_text(4097, 96, 0)).each, 1);
  EXPECT_FALSE(threads_of(scan_text(32, 96, 0)).across);
  EXPECT_FALSE(threads_of(scan_text(64, 200'000, 0)).across);  // enough columns for a thread each
}

// A row that is needed again when it is scanned stays with its team, or the scan is a kernel of its own.
TEST(CudaPlans, ScannedRowsAreHeld) {
  for (const int64_t columns : {100, 4096, 20000, 80000}) {
    const auto plan = check(fmt::format(R"(input %0 : f32[40, {0}]@D = argument "x"
%1 : f32[40, {0}]@D = aten::cumsum(%0, 1)
%2 : f32[40, 1]@D = aten::amax(%1, [1], true)
%3 : f32[40, {0}]@D = aten::sub.Tensor(%1, %2)
output %3
)",
                                        columns));
    EXPECT_EQ(kernels(plan), columns == 80000 ? 3 : 1) << schedule::print(plan);
  }
}

TEST(CudaPlans, WrongScansDoNotVerify) {
  auto k = loops::parse_kernel(loops::print(only_kernel(check(scan_text(300, 70, 0)))));
  k->threads.team = 48;
  k->threads.across = false;
  EXPECT_THROW(loops::verify(*k), Error);
}

}  // namespace
