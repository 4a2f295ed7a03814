// Outputs of recorded calls that get the same addresses again (Artifact::outputs_recur), on a driver, an allocator and
// operators that replace a GPU's.
#include <gtest/gtest.h>

#include "recorded_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

constexpr int64_t kSide = 4;

// u = (2 * x + b) @ w, y = 2 * u + b. A call makes u.
struct Half {
  GpuProgram p{kSide};
  explicit Half(bool recurs) {
    const int x = p.input(), w = p.input(), b = p.input();
    const int t = p.output(), u = p.output(), y = p.output();
    p.mix(x, b, t);
    p.mm(t, w, u);
    p.mix(u, b, y);
    p.show(t);
    p.show(u);
    p.show(y);
    p.a.outputs_recur = recurs;
  }
};

struct Results {
  at::Tensor t, u, y;
};

Results run(const runtime::Executable& e, const std::vector<at::Tensor>& inputs) {
  const std::vector<c10::IValue> out = outputs_of(e, inputs);
  return {out.at(0).toTensor(), out.at(1).toTensor(), out.at(2).toTensor()};
}

void expect(const Results& r, float x) {
  EXPECT_TRUE(all_are(r.t, 2 * x + 1));
  EXPECT_TRUE(all_are(r.u, kSide * (2 * x + 1)));
  EXPECT_TRUE(all_are(r.y, 2 * kSide * (2 * x + 1) + 1));
}

TEST(RecurringOutputs, AreNotCopiedWhereTheirAddressesAreThoseOfTheRecording) {
  for (const bool recurs : {false, true}) {
    Half h(recurs);
    const runtime::Executable e(h.p.finish());
    const at::Tensor w = h.p.tensor(1), b = h.p.tensor(1);
    for (int i = 0; i < 4; ++i) expect(run(e, {h.p.tensor(static_cast<float>(i)), w, b}), static_cast<float>(i));
    const gpu::Calls before = gpu::calls();
    const at::Tensor x = h.p.tensor(5);
    const int64_t setup = gpu::calls().copies - before.copies;
    for (int i = 0; i < 4; ++i) expect(run(e, {x, w, b}), 5);
    const gpu::Calls after = gpu::calls();
    EXPECT_EQ(after.graph_launches - before.graph_launches, 4);
    EXPECT_EQ(after.copies - before.copies - setup, recurs ? 0 : 4 * 2);  // t and u of each run
  }
}

TEST(RecurringOutputs, ThatAreKeptAreNotOverwritten) {
  Half h(true);
  const runtime::Executable e(h.p.finish());
  const at::Tensor w = h.p.tensor(1), b = h.p.tensor(1);
  std::vector<Results> kept;
  for (int i = 0; i < 30; ++i) kept.push_back(run(e, {h.p.tensor(static_cast<float>(i)), w, b}));
  for (int i = 0; i < 30; ++i) expect(kept[static_cast<size_t>(i)], static_cast<float>(i));
  // The recordings for other addresses end, and the last one copies.
  EXPECT_LE(e.graphs()->recorded, 14);
  EXPECT_EQ(e.graphs()->kept, 1);
  const int64_t before = gpu::calls().graph_launches;
  expect(run(e, {h.p.tensor(3), w, b}), 3);
  EXPECT_EQ(gpu::calls().graph_launches - before, 1);
}

// Two calls, then both are forgotten, as in a loop that adds the gradients of two batches.
TEST(RecurringOutputs, HaveRecordingsForSomeAddresses) {
  Half h(true);
  const runtime::Executable e(h.p.finish());
  const at::Tensor w = h.p.tensor(1), b = h.p.tensor(1), x = h.p.tensor(1), z = h.p.tensor(2);
  const auto step = [&] {
    const Results first = run(e, {x, w, b}), second = run(e, {z, w, b});
    expect(first, 1);
    expect(second, 2);
  };
  for (int i = 0; i < 4; ++i) step();
  const int64_t recorded = e.graphs()->recorded;
  for (int i = 0; i < 8; ++i) step();
  EXPECT_EQ(e.graphs()->recorded, recorded);
  EXPECT_LE(recorded, 4);
}

TEST(RecurringOutputs, NeedNoMoreMemoryThanThereIs) {
  for (int served = 0; served < 12; ++served) {
    Half h(true);
    const runtime::Executable e(h.p.finish());
    const at::Tensor w = h.p.tensor(1), b = h.p.tensor(1), x = h.p.tensor(1);
    for (int i = 0; i < 3; ++i) {
      gpu::run_short(i == 1 ? served : 0, i == 1 ? 1 : 0);
      try {
        const Results r = run(e, {x, w, b});
        gpu::run_short(0, 0);
        expect(r, 1);
      } catch (const c10::OutOfMemoryError&) {
        gpu::run_short(0, 0);
      }
    }
  }
}

}  // namespace
