// Recorded calls: a driver, an allocator and operators stand in for a GPU's.
#include <gtest/gtest.h>

#include "recorded_program.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

at::Tensor one(const runtime::Executable& e, const std::vector<at::Tensor>& inputs) {
  std::string why;
  EXPECT_TRUE(e.accepts(inputs, {}, &why)) << why;
  return run_one(e, inputs);
}

TEST(RecordedCalls, AreLaunchedAndRight) {
  GpuProgram p(4);
  const int x = p.input(), w = p.input(), b = p.input();
  const int t = p.arena(), u = p.returned(), y = p.output();
  p.mix(x, b, t);
  p.mm(t, w, u);
  p.mix(u, b, y);
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor wt = p.tensor(0.5F), bt = p.tensor(1);
  std::vector<at::Tensor> kept;
  for (int i = 0; i < 6; ++i) kept.push_back(one(e, {p.tensor(static_cast<float>(i)), wt, bt}));
  for (int i = 0; i < 6; ++i) {
    const float want = 2 * (4 * 0.5F * (2.0F * static_cast<float>(i) + 1)) + 1;
    EXPECT_TRUE(on_cpu(kept[i]).equal(at::full({4, 4}, want))) << i << on_cpu(kept[i]);
  }
  EXPECT_EQ(e.graphs()->kept, 1) << e.graphs()->why_none;
  EXPECT_EQ(e.graphs()->recorded, 1);
}

}  // namespace
