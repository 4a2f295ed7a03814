// The estimate of LLVM's memory holds for kernels of every primitive, and a budget bounds what kernels take together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/compile_memory.h"
#include "codegen/codegen.h"
#include "codegen/llvm/memory.h"
#include "codegen_prims.h"
#include "memory_heap.h"
#include "memory_kernel_texts.h"

namespace vesta::codegen {
namespace {

using testing::chain;

// LLVM finds that a long chain of these is as good as a short one.
bool is_folded(Prim p) { return p == Prim::Max || p == Prim::Min || p == Prim::FMax || p == Prim::FMin; }

TEST(KernelMemory, TheEstimateHoldsForEveryPrimitive) {
  if (!vesta::testing::heap_is_measured()) GTEST_SKIP() << "a sanitizer has its own heap";
  CompileOptions options;
  options.workers = 1;
  compile({{chain(Prim::Add, DType::F32, 3), "first"}}, host_target(), options);  // what the process needs once
  int measured = 0;
  for (const DType t : {DType::F32, DType::F64, DType::I64}) {
    for (int i = 0; i <= static_cast<int>(Prim::Shr); ++i) {
      const Prim p = static_cast<Prim>(i);
      if (!testing::is_defined(p, t) || (p >= Prim::IsNan && p <= Prim::SignBit)) continue;
      for (const int n : {4, 60}) {
        const std::string text = chain(p, t, n);
        const vesta::testing::Heap heap;
        const Result made = compile({{text, "chain"}}, host_target(), options).at(0);
        if (made.origin != Origin::Compiled) continue;
        ++measured;
        EXPECT_LE(heap.peak(), made.memory) << name(p) << " " << name(t) << " " << n;
        if (n > 4 && is_folded(p)) continue;
        EXPECT_GE(heap.peak(), (made.memory - llvm_memory(0)) / kMostOverestimated)
            << name(p) << " " << name(t) << " " << n;
      }
    }
  }
  EXPECT_GT(measured, 150);
}

std::vector<Request> kernels(int count, int n) {
  std::vector<Request> all;
  for (int i = 0; i < count; ++i) all.push_back({chain(Prim::Exp, DType::F32, n + i), fmt::format("exp_{}", i)});
  return all;
}

TEST(KernelMemory, KernelsTogetherStayWithinTheBudget) {
  CompileOptions options;
  options.workers = 4;
  const int64_t each = compile({kernels(1, 200).at(0)}, host_target(), options).at(0).memory;
  totals::reset_counts();
  options.memory = 3 * each;  // its half is enough for one of them
  compile(kernels(8, 190), host_target(), options);
  const int64_t peak = totals::peak_bytes(totals::Memory::Generators);
  EXPECT_GT(peak, each * 8 / 10);
  EXPECT_LE(peak, options.memory / 2);
  EXPECT_EQ(totals::bytes(totals::Memory::Generators), 0);
}

// A thread keeps some of LLVM's memory for the next kernel, but not that of a large one.
TEST(KernelMemory, AThreadKeepsLittle) {
  if (!vesta::testing::heap_is_measured()) GTEST_SKIP() << "a sanitizer has its own heap";
  CompileOptions options;
  options.workers = 1;
  compile(kernels(1, 3), host_target(), options);
  const vesta::testing::Heap heap;
  for (const int n : {400, 50, 401}) compile(kernels(1, n), host_target(), options);
  EXPECT_GT(heap.peak(), 8 << 20);
  EXPECT_LT(heap.now(), 1 << 19);
}

TEST(KernelMemory, AKernelThatNeedsMoreIsRefused) {
  CompileOptions options;
  options.memory = 4 << 20;
  const auto requests = kernels(1, 300);
  try {
    compile(requests, host_target(), options);
    FAIL() << "it was compiled";
  } catch (const OverBudget& e) {
    EXPECT_NE(std::string(e.what()).find("the kernel exp_0 takes about"), std::string::npos) << e.what();
  }
  // Refused without any code, by the number of its instructions: each call of the emitter for an operand is a call on
  // the stack, and this kernel would need more than a thread has.
  const std::string text = chain(Prim::Add, DType::F32, 100'000);
  options.memory = 128 << 20;
  const vesta::testing::Heap heap;
  EXPECT_THROW(compile({{text, "long"}}, host_target(), options), OverBudget);
  EXPECT_LE(heap.peak(), options.memory);
  options.memory = -1;
  EXPECT_EQ(compile(requests, host_target(), options).at(0).origin, Origin::Compiled);
}

}  // namespace
}  // namespace vesta::codegen
