// The estimate of NVRTC's memory holds for kernels of every primitive, and a budget bounds what kernels take together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/compile_memory.h"
#include "codegen/codegen.h"
#include "codegen_prims.h"
#include "cuda_plans.h"
#include "loops/kernel.h"
#include "memory_heap.h"
#include "memory_kernel_texts.h"

namespace vesta::codegen {
namespace {

Target gpu() { return machine::cuda_target_of(90); }

std::string chain(Prim p, DType t, int n) { return testing::chain(p, t, n, "threads 256 team 1 held 0 each 4"); }

std::vector<std::string> kernels_of(const std::string& graph) {
  schedule::Options options;
  options.target = gpu();
  std::vector<std::string> texts;
  const schedule::Plan plan = schedule::make_plan(*vesta::testing::on_device("cuda:0", graph), options);
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) texts.push_back(k->text);
  return texts;
}

// Compiles a kernel, and compares what it took with the estimate. False: it was found in the process.
bool check(const std::string& text, const std::string& what) {
  CompileOptions options;
  options.workers = 1;
  const vesta::testing::Heap heap;
  const Result made = compile({{text, what}}, gpu(), options).at(0);
  if (made.origin != Origin::Compiled) return false;
  EXPECT_LE(heap.peak(), made.memory) << what;
  EXPECT_GE(heap.peak(), made.memory / 25) << what;
  return true;
}

class NvrtcMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!vesta::testing::heap_is_measured()) GTEST_SKIP() << "a sanitizer has its own heap";
    check(chain(Prim::Add, DType::F32, 3), "what the process needs once");
  }
};

int measure(const std::vector<Prim>& prims, const std::vector<DType>& dtypes, const std::vector<int>& lengths) {
  int measured = 0;
  for (const DType t : dtypes) {
    for (const Prim p : prims) {
      if (!testing::is_defined(p, t) || (p >= Prim::IsNan && p <= Prim::SignBit)) continue;
      for (const int n : lengths) measured += check(chain(p, t, n), fmt::format("{} {} {}", name(p), name(t), n));
    }
  }
  return measured;
}

TEST_F(NvrtcMemory, TheEstimateHolds) {
  EXPECT_EQ(measure({Prim::Mul, Prim::Exp, Prim::Erf, Prim::Log1p, Prim::Rem}, {DType::F32, DType::F64}, {4, 12}), 20);
  for (const int64_t columns : {512, 4096, 16384})
    for (const std::string& text : kernels_of(vesta::testing::softmax_text(64, columns, "bf16")))
      check(text, "softmax");
}

// By hand, when the prelude or a function changes: three minutes.
TEST_F(NvrtcMemory, DISABLED_TheEstimateHoldsForEveryPrimitive) {
  std::vector<Prim> all;
  for (int i = 0; i <= static_cast<int>(Prim::Shr); ++i) all.push_back(static_cast<Prim>(i));
  EXPECT_GT(measure(all, {DType::F32, DType::F64, DType::I64}, {4, 60}), 150);
}

TEST_F(NvrtcMemory, KernelsTogetherStayWithinTheBudget) {
  const auto kernels = [](int first) {
    std::vector<Request> all;
    for (int n = first; n < first + 6; ++n)
      all.push_back({chain(Prim::Tanh, DType::F32, n), fmt::format("tanh_{}", n)});
    return all;
  };
  CompileOptions options;
  options.workers = 4;
  const int64_t each = compile({kernels(2).front()}, gpu(), options).at(0).memory;
  totals::reset_counts();
  options.memory = 5 * each;  // a half is enough for two of them; more than two would be one program
  for (const Result& r : compile(kernels(3), gpu(), options)) EXPECT_EQ(r.origin, Origin::Compiled);
  const int64_t peak = totals::peak_bytes(totals::Memory::Generators);
  EXPECT_GT(peak, each);
  EXPECT_LE(peak, options.memory / 2);
  EXPECT_EQ(totals::bytes(totals::Memory::Generators), 0);

  options.memory = each;
  try {
    compile({kernels(20).front()}, gpu(), options);
    FAIL() << "it was compiled";
  } catch (const OverBudget& e) {
    EXPECT_NE(std::string(e.what()).find("the kernel tanh_20 takes about"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace vesta::codegen
