// Outputs of recorded calls that get the same addresses again (Artifact::outputs_recur), on a driver, an allocator and
// operators that replace a GPU's.
#include <gtest/gtest.h>

#include "recorded_run.h"
#include "runtime/cuda/replay_stream.h"

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

// Matrices of more than a megabyte: z = 2 * ((2 * x + b) @ w) + b, y = inverse(x @ w). A kernel of the GPU reads the
// first product; the second is made in a graph and read beside it. `recurs`: false keeps the memory of all that.
struct Large {
  static constexpr int64_t kLarge = 600;
  GpuProgram p{kLarge};
  explicit Large(bool recurs) {
    const int x = p.input(), w = p.input(), b = p.input();
    const int t = p.arena(), first = p.returned(), second = p.returned(), z = p.output(), y = p.returned();
    p.mix(x, b, t);
    p.mm(t, w, first);
    p.mix(first, b, z);
    p.mm(x, w, second);
    p.call("aten::inverse", {second}, y);
    p.show(z);
    p.show(y);
    p.a.outputs_recur = recurs;
  }
};

TEST(RecurringOutputs, LeaveNoMemoryBetweenRuns) {
  constexpr int64_t kMatrix = 4 * Large::kLarge * Large::kLarge;
  for (const bool recurs : {false, true}) {
    runtime::ReplayStream::trim_all();
    Large l(recurs);
    const runtime::Executable e(l.p.finish());
    const auto diagonal = [](float value) { return (at::eye(Large::kLarge) * value).to(at::Device(at::kCUDA, 0)); };
    const at::Tensor w = diagonal(1), b = l.p.tensor(0);
    std::vector<at::Tensor> inputs;
    for (int i = 0; i < 9; ++i) inputs.push_back(diagonal(i % 2 == 0 ? 2 : 4));
    const int64_t before = gpu::allocated_bytes();
    for (int i = 0; i < 9; ++i) {
      const float x = i % 2 == 0 ? 2 : 4;
      const std::vector<c10::IValue> out = outputs_of(e, {inputs[static_cast<size_t>(i)], w, b});
      EXPECT_TRUE(on_cpu(out.at(0).toTensor()).equal(at::eye(Large::kLarge) * 4 * x)) << recurs << i;
      EXPECT_TRUE(on_cpu(out.at(1).toTensor()).equal(at::eye(Large::kLarge) / x)) << recurs << i;
    }
    ASSERT_GT(e.graphs()->kept, 0) << e.graphs()->why_none;
    const int64_t left = gpu::allocated_bytes() - before;
    EXPECT_TRUE(recurs ? left < kMatrix : left >= 2 * kMatrix) << left;
    EXPECT_TRUE(recurs ? e.graphs()->bytes < kMatrix : e.graphs()->bytes >= 2 * kMatrix) << e.graphs()->bytes;
  }
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
