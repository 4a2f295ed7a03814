// Other schedules of GPU kernels: each is legal, differs in nothing else, and fits.
#include <set>

#include "cuda_plans.h"
#include "loops/zeros.h"
#include "schedule/alternatives.h"
#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

const Target& gpu() {
  static const Target t = machine::cuda_target_of(90);
  return t;
}

std::vector<std::shared_ptr<const loops::Kernel>> kernels_of(const std::string& text) {
  schedule::Options options;
  options.target = gpu();
  const schedule::Plan plan = schedule::make_plan(*on_device("cuda:0", text), options);
  std::vector<std::shared_ptr<const loops::Kernel>> out;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) out.push_back(k->kernel);
  return out;
}

std::vector<std::shared_ptr<const loops::Kernel>> check(const std::string& text) {
  std::vector<std::shared_ptr<const loops::Kernel>> all;
  for (const auto& k : kernels_of(text)) {
    const auto found = schedule::alternatives(*k, gpu());
    EXPECT_LE(found.size(), 12u);
    std::set<std::string> texts = {print(*k)};
    for (const auto& a : found) {
      EXPECT_TRUE(texts.insert(print(*a)).second) << "twice:\n" << print(*a);
      verify(*a);
      EXPECT_LE(shared_bytes(*a), gpu().l1_bytes);
      // With the planner's threads it is the planner's kernel.
      loops::Kernel same = *a;
      same.threads = k->threads;
      same.tile = k->tile;
      EXPECT_EQ(print(same), print(*k));
      all.push_back(a);
    }
  }
  return all;
}

template <class F>
bool any(const std::vector<std::shared_ptr<const loops::Kernel>>& kernels, F&& f) {
  return std::any_of(kernels.begin(), kernels.end(), [&](const auto& k) { return f(*k); });
}

TEST(CudaAlternatives, Pointwise) {
  const auto found = check(R"(input %0 : f32[4096, 4096]@D = argument "x" aligned 16
%1 : f32[4096, 4096]@D = aten::tanh(%0)
output %1
)");
  EXPECT_TRUE(any(found, [](const auto& k) { return k.threads.block == 512; }));
  EXPECT_TRUE(any(found, [](const auto& k) { return k.threads.each == 8; }));
  // 6 is no multiple of 4.
  for (const auto& k : check(R"(input %0 : f32[5, 6]@D = argument "x"
%1 : f32[5, 6]@D = aten::tanh(%0)
%2 : f32[6, 5]@D = aten::t(%1)
%3 : f32[6]@D = aten::sum.dim_IntList(%2, [1], false)
output %3
)"))
    EXPECT_LE(k->threads.each, 2);
}

TEST(CudaAlternatives, RowsInRegistersAndInSharedMemory) {
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    const auto found = check(softmax_text(64, 4096, dtype));
    ASSERT_FALSE(found.empty()) << dtype;
    EXPECT_TRUE(any(found, [](const auto& k) { return k.threads.shared; })) << dtype;
    EXPECT_TRUE(any(found, [](const auto& k) { return k.threads.held > 0; })) << dtype;
  }
  for (const int64_t columns : {1, 7, 33, 96, 1000, 30000, 300000}) check(softmax_text(512, columns));
}

// Twice and half as many blocks for a row, if it is long.
TEST(CudaAlternatives, PartsOfRows) {
  const auto parts_of = [](int64_t rows, int64_t columns) {
    std::set<int64_t> all;
    for (const auto& k : check(softmax_text(rows, columns))) all.insert(k->threads.parts);
    return all;
  };
  EXPECT_EQ(parts_of(512, 4096), std::set<int64_t>{1});
  EXPECT_EQ(parts_of(512, 30000), (std::set<int64_t>{2, 4}));
}

TEST(CudaAlternatives, ColumnsAndTiles) {
  const auto columns = check(R"(input %0 : f32[700, 300]@D = argument "x"
%1 : f32[300]@D = aten::sum.dim_IntList(%0, [0], false)
output %1
)");
  EXPECT_TRUE(any(columns, [](const auto& k) { return k.threads.across; }));
  const auto tiles = check(R"(input %0 : f32[512, 768]@D = argument "x"
%1 : f32[768, 512]@D = aten::t(%0)
%2 : f32[768, 512]@D = aten::clone(%1, memory_format=0)
%3 : f32[768, 512]@D = aten::tanh(%2)
output %3
)");
  EXPECT_TRUE(any(tiles, [](const auto& k) { return k.tile.rows == 16; }));
  EXPECT_TRUE(any(tiles, [](const auto& k) { return k.threads.block == 512; }));
}

TEST(CudaAlternatives, SizesThatAreNotKnown) {
  const auto found = check(R"(symbol s0 = 40, at least 2
symbol s1 = 1000, at least 2
source s0 = size 0 of input 0
source s1 = size 1 of input 0
input %0 : f32[s0, s1]@D = argument "x"
%1 : f32[s0]@D = aten::sum.dim_IntList(%0, [1], false)
%2 : f32[s0, s1]@D = aten::tanh(%0)
output %1
output %2
)");
  EXPECT_FALSE(found.empty());
  for (const auto& k : found) EXPECT_EQ(k->threads.each, 1);
}

TEST(RunsOnZeros, WhatNamesPlacesMustNameTheFirst) {
  const auto runs = [](const std::string& text) {
    bool all = true;
    for (const auto& k : kernels_of(text)) all &= loops::runs_on_zeros(*k);
    return all;
  };
  EXPECT_TRUE(runs(softmax_text(64, 96)));
  const std::string rows = R"(input %0 : f32[700, 300]@D = parameter "w"
input %1 : i64[5]@D = argument "i"
)";
  EXPECT_TRUE(runs(rows + R"(%2 : f32[5, 300]@D = aten::embedding(%0, %1, -1, false, false)
output %2
)"));
  // -1 is the last one, or none.
  EXPECT_FALSE(runs(rows + R"(%2 : i64[5]@D = aten::sub.Scalar(%1, 1, 1)
%3 : f32[5, 300]@D = aten::embedding(%0, %2, -1, false, false)
output %3
)"));
  EXPECT_FALSE(runs(rows + R"(%2 : i64[5]@D = aten::add.Scalar(%1, 700, 1)
%3 : f32[5, 300]@D = aten::embedding(%0, %2, -1, false, false)
output %3
)"));
}

}  // namespace
