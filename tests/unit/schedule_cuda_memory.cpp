// Plans for a GPU (schedule_cuda.cpp) whose kernels pass elements through shared memory: tiles, and rows that several
// blocks share.
#include "cuda_plan_runs.h"
#include "graph/passes/pass.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

const char* const kTransposed = R"(input %0 : f32[300, 70]@D = argument "x"
%1 : f32[70, 300]@D = aten::t(%0)
%2 : f32[70, 300]@D = aten::clone(%1, memory_format=format.contiguous)
output %2
)";

TEST(CudaPlans, TransposedLoadsGoThroughTiles) {
  const auto plan = check(kTransposed);
  const loops::Kernel& k = only_kernel(plan);
  EXPECT_EQ(k.tile.rows, 32);
  EXPECT_EQ(k.tile.columns, 32);
  EXPECT_EQ(k.tile.pitch, 33);
  const auto* step = std::get_if<schedule::KernelStep>(&plan.steps.at(0));
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(hint(step->items), 10 * 3);
  EXPECT_EQ(hint(loops::launched_items(k)), 10 * 3);
  EXPECT_EQ(loops::items_of_block(k), 1);
  const std::string text = loops::print(k);
  EXPECT_EQ(loops::print(*loops::parse_kernel(text)), text);
  EXPECT_NE(text.find("tile p0 32 by 32 pitch 33 %0\n"), std::string::npos) << text;
}

TEST(CudaPlans, WrongTilesDoNotVerify) {
  const auto plan = check(kTransposed);
  const auto broken = [&](auto&& change) {
    auto k = loops::parse_kernel(loops::print(only_kernel(plan)));
    change(*k);
    EXPECT_THROW(loops::verify(*k), Error);
  };
  broken([](loops::Kernel& k) { k.tile.pitch = 31; });
  broken([](loops::Kernel& k) { k.tile.rows = 33; });
  broken([](loops::Kernel& k) { k.tile.rows = k.tile.columns = 128; });
  broken([](loops::Kernel& k) { k.tile.row = k.ranges.back().var; });
  broken([](loops::Kernel& k) { k.tile.loads.clear(); });
  broken([](loops::Kernel& k) { k.threads.each = 4; });
}

// Weights of a convolution in the order that channels-last convolutions read: nine elements of each channel lie
// together.
const char* const kWeights = R"(input %0 : bf16[640, 320, 3, 3]@D = argument "w"
%1 : bf16[640, 320, 3, 3]{2880, 1, 960, 320}@D = aten::clone(%0, memory_format=format.channels_last)
output %1
)";

TEST(CudaPlans, TilesOfOddRowsLieTogether) {
  const auto plan = check(kWeights);
  const loops::Kernel& k = only_kernel(plan);
  EXPECT_TRUE(k.tile.lies_together()) << loops::print(k);
  EXPECT_EQ(k.tile.rows, 9);
  EXPECT_EQ(k.tile.columns, 320);
  EXPECT_EQ(k.threads.each, 4);
  EXPECT_EQ(hint(loops::launched_items(k)), 640);
  const auto broken = [&](auto&& change) {
    auto b = loops::parse_kernel(loops::print(k));
    loops::verify(*b);
    change(*b);
    EXPECT_THROW(loops::verify(*b), Error);
  };
  broken([](loops::Kernel& b) { b.tile.rows = b.tile.pitch = 7; });
  broken([](loops::Kernel& b) { b.tile.columns = 318; });
  broken([](loops::Kernel& b) { b.tile.columns = 320 * 64; });
  broken([](loops::Kernel& b) {
    loops::Instr& load = b.instrs[b.tile.loads[0]];
    load.index = load.index + b.ranges.back().var;
  });
}

// Groups of channels of a channels-last image, which no multiprocessor can keep alone: the blocks that share a group
// keep the image's elements, and read its bias, which caches hold, again.
TEST(CudaPlans, GroupNormsKeepTheImage) {
  const auto g = on_device("cuda:0", R"(input %0 : bf16[32, 320, 64, 64]{1310720, 1, 20480, 320}@D = argument "x"
input %1 : bf16[320]@D = parameter "bias"
input %2 : bf16[32, 320, 64, 64]{1310720, 1, 20480, 320}@D = argument "y"
%3 : bf16[320, 1, 1]@D = aten::view(%1, [320, 1, 1])
%4 : bf16[32, 320, 64, 64]{1310720, 1, 20480, 320}@D = aten::add.Tensor(%0, %3)
%5 : bf16[32, 320, 64, 64]{1310720, 1, 20480, 320}@D = aten::add.Tensor(%4, %2)
%6 : bf16[32, 320, 64, 64]{1310720, 1, 20480, 320}@D, %7 : bf16[32, 32]@D, %8 : bf16[32, 32]@D = aten::native_group_norm(%5, none, none, 32, 320, 4096, 32, 1e-05)
output %6
)");
  graph::run_passes(*g, {.options = vesta::Options(), .device = DeviceType::CUDA}, true);
  const auto plan = schedule::make_plan(*g, for_device(DeviceType::CUDA));
  std::vector<const loops::Kernel*> kernels;
  for (const auto& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) kernels.push_back(k->kernel.get());
  ASSERT_EQ(kernels.size(), 1u);
  const loops::Kernel& k = *kernels[0];
  EXPECT_TRUE(k.threads.shared);
  EXPECT_EQ(k.threads.parts, 4);
  EXPECT_EQ(k.row_slots, std::vector{DType::F32}) << loops::print(k);
  // Each element of the images is read once.
  int64_t reads = 0;
  for (const loops::Instr& i : k.instrs)
    if (i.kind == loops::InstrKind::Load)
      reads += std::all_of(k.ranges.begin(), k.ranges.end(), [&](const loops::Range& r) {
        const auto step = coefficient_of(i.index, r.var);
        return step && !step->is_constant(0);
      });
  EXPECT_EQ(reads, 2) << loops::print(k);
}

// ---- Results of calls

// A call in a CUDA graph makes its result at one address. A kernel in the graph copies it to the output of each run,
// and the next call's result may lie in the same memory.
TEST(CudaPlans, OutputsOfCallsAreCopiedInRecordings) {
  const auto g = on_device("cuda:0", R"(input %0 : f32[64, 64]@D = argument "x"
%1 : f32[64, 64]@D = aten::mm(%0, %0)
%2 : f32[64, 64]@D = aten::mm(%1, %1)
%3 : f32[64, 64]{1, 64}@D = aten::t(%2)
%4 : f32[64, 64]@D = aten::tanh(%2)
%5 : f32[64, 64]@D = aten::mm(%4, %4)
output %1
output %3
output %5
)");
  schedule::Options options = for_device(DeviceType::CUDA);
  EXPECT_EQ(kernels(schedule::make_plan(*g, options)), 1);
  options.recorded = true;
  const auto plan = schedule::make_plan(*g, options);
  const std::string text = schedule::print(plan);
  EXPECT_EQ(kernels(plan), 2) << text;  // a copy, and a copy with tanh: %2 is read once
  const auto buffer = [&](int output) -> const schedule::Buffer& {
    return plan.buffers[static_cast<size_t>(plan.outputs[static_cast<size_t>(output)].buffer)];
  };
  EXPECT_EQ(buffer(0).role, schedule::BufferRole::Output) << text;
  EXPECT_EQ(buffer(1).role, schedule::BufferRole::Output) << text;
  EXPECT_EQ(plan.outputs[1].strides, g->outputs[1].value->type.strides) << text;
  EXPECT_EQ(buffer(2).role, schedule::BufferRole::Returned) << text;  // the last step: it can run beside the graph
  // The copy of the first result comes before the second call is over.
  EXPECT_LE(buffer(0).first_step, 2) << text;
}

// A call reads what a kernel makes and the program returns: the kernel writes it twice.
TEST(CudaPlans, OutputsThatCallsReadAreWrittenTwiceInRecordings) {
  const auto g = on_device("cuda:0", R"(input %0 : f32[64, 64]@D = argument "x"
%1 : f32[64, 64]@D = aten::tanh(%0)
%2 : f32[64, 64]@D = aten::mm(%1, %1)
%3 : f32[64, 64]@D = aten::sigmoid(%2)
output %1
output %3
)");
  schedule::Options options = for_device(DeviceType::CUDA);
  options.recorded = true;
  const auto plan = schedule::make_plan(*g, options);
  const std::string text = schedule::print(plan);
  EXPECT_EQ(kernels(plan), 2) << text;
  const auto& call = std::get<schedule::ExternStep>(plan.steps.at(1));
  const int read = std::get<schedule::BufferView>(call.args.at(0)).buffer;
  EXPECT_EQ(plan.buffers[static_cast<size_t>(read)].role, schedule::BufferRole::Arena) << text;
  EXPECT_EQ(plan.buffers[static_cast<size_t>(read)].last_step, 1) << text;
  for (const schedule::BufferView& output : plan.outputs)
    EXPECT_EQ(plan.buffers[static_cast<size_t>(output.buffer)].role, schedule::BufferRole::Output) << text;
}

// ---- Rows that several blocks share

TEST(CudaPlans, BlocksShareLongRows) {
  const auto threads_of = [](int64_t rows, int64_t columns, int arch = 90) {
    schedule::Options options = for_device(DeviceType::CUDA);
    options.target = machine::cuda_target_of(arch);
    const auto plan = schedule::make_plan(*on_device("cuda:0", softmax_text(rows, columns)), options);
    EXPECT_EQ(kernels(plan), 1);
    const loops::Kernel& k = only_kernel(plan);
    EXPECT_EQ(loops::print(*loops::parse_kernel(loops::print(k))), loops::print(k));
    return k.threads;
  };
  EXPECT_EQ(threads_of(7, 4096).parts, 1);  // as quick as several blocks start
  const loops::Threads few = threads_of(7, 32000), long_ones = threads_of(1000, 90000);
  EXPECT_EQ(few.parts, 8);
  EXPECT_GT(few.held, 0);
  EXPECT_EQ(threads_of(30, 32000).parts, 4);  // multiprocessors for 3 times as many
  EXPECT_EQ(long_ones.parts, 8);
  EXPECT_TRUE(long_ones.shared);
  EXPECT_EQ(threads_of(7, 32000, 80).parts, 1);
}

// A sum whose elements are read once is shared only if one block would take long. Longer rows are two kernels.
TEST(CudaPlans, BlocksShareLongSums) {
  const auto plan_of = [](int64_t columns) {
    return schedule::make_plan(
        *on_device("cuda:0", fmt::format("input %0 : f32[7, {}]@D = argument \"x\"\n%1 : f32[7]@D = "
                                         "aten::sum.dim_IntList(%0, [1], false)\noutput %1\n",
                                         columns)),
        for_device(DeviceType::CUDA));
  };
  EXPECT_EQ(only_kernel(plan_of(32000)).threads.parts, 1);
  EXPECT_EQ(only_kernel(plan_of(131072)).threads.parts, 8);
  EXPECT_EQ(kernels(plan_of(1 << 20)), 2);
}

TEST(CudaPlans, WrongPartsDoNotVerify) {
  const std::string text = loops::print(only_kernel(check(softmax_text(7, 32000))));
  const auto wrong = [&](auto&& change) {
    const auto k = loops::parse_kernel(text);
    loops::verify(*k);
    change(k->threads);
    EXPECT_THROW(loops::verify(*k), Error) << loops::print(*k);
  };
  wrong([](loops::Threads& t) { t.parts = 3; });
  wrong([](loops::Threads& t) { t.parts = 32; });
  wrong([](loops::Threads& t) { t.parts = 1; });  // does not hold the row
  wrong([](loops::Threads& t) { t.team = 32; });
}

}  // namespace
