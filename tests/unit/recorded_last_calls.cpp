// Recorded calls whose last step is a library call with a large result.
#include <thread>

#include "recorded_run.h"
#include "runtime/cuda/replay_stream.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

constexpr int64_t kSide = 516;  // a result of more than 1 MiB

// y = (2 * (2 * x + b) + b) * w: two kernels, then a call of ATen.
struct LargeResult {
  GpuProgram p{kSide};
  LargeResult() {
    const int x = p.input(), w = p.input(), b = p.input();
    const int t = p.arena(), u = p.arena(), y = p.returned();
    p.mix(x, b, t);
    p.mix(t, b, u);
    p.call("aten::mul.Tensor", {u, w}, y);
    p.show(y);
  }
  static float of(float x, float w, float b) { return (2 * (2 * x + b) + b) * w; }
};

// How many graphs a call launches.
int64_t launches(const runtime::Executable& e, const std::vector<at::Tensor>& inputs, at::Tensor& y) {
  const int64_t before = gpu::calls().graph_launches;
  y = one(e, inputs);
  return gpu::calls().graph_launches - before;
}

TEST(LastCalls, HaveAGraphForEachAddress) {
  LargeResult l;
  const runtime::Executable e(l.p.finish());
  const at::Tensor x[] = {l.p.tensor(1), l.p.tensor(2)}, w = l.p.tensor(3), b = l.p.tensor(4);
  at::Tensor y;  // lives during the next call: two addresses in turn
  std::vector<int64_t> found;
  for (int i = 0; i < 10; ++i) {
    found.push_back(launches(e, {x[i % 2], w, b}, y));
    EXPECT_TRUE(all_are(y, LargeResult::of(static_cast<float>(1 + i % 2), 3, 4))) << i;
  }
  EXPECT_EQ(found, (std::vector<int64_t>{0, 1, 1, 2, 2, 2, 2, 2, 2, 2}));
  const GraphReport report = *e.graphs();
  EXPECT_EQ(report.graphs, 3);
  EXPECT_EQ(report.nodes, 4);
  EXPECT_TRUE(report.direct.empty());
}

TEST(LastCalls, ResultsAreTheCallers) {
  LargeResult l;
  const runtime::Executable e(l.p.finish());
  const at::Tensor w = l.p.tensor(3), b = l.p.tensor(4);
  std::vector<at::Tensor> x, kept(12);
  for (size_t i = 0; i < kept.size(); ++i) x.push_back(l.p.tensor(static_cast<float>(i)));
  for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(launches(e, {x[i], w, b}, kept[i]), i > 0 ? 1 : 0) << i;
  EXPECT_EQ(e.graphs()->direct.size(), 1U);  // no address came again
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_TRUE(all_are(kept[i], LargeResult::of(static_cast<float>(i), 3, 4))) << i;
  at::Tensor y;
  for (int i = 0; i < 6; ++i) one(e, {x[0], w, b});
  EXPECT_EQ(launches(e, {x[1], w, b}, y), 2);
  y.fill_(0);
  EXPECT_EQ(launches(e, {x[2], w, b}, kept[0]), 1);
  EXPECT_TRUE(all_are(y, 0));
  EXPECT_TRUE(all_are(kept[0], LargeResult::of(2, 3, 4)));
}

TEST(LastCalls, ServeFourAddresses) {
  LargeResult l;
  const runtime::Executable e(l.p.finish());
  const at::Tensor x = l.p.tensor(1), w = l.p.tensor(3), b = l.p.tensor(4);
  for (const size_t held : {4, 3}) {  // results that live during a call; its own result has one more address
    std::vector<at::Tensor> kept(held);
    int64_t last = 0;
    for (size_t i = 0; i < 14; ++i) {
      last = launches(e, {x, w, b}, kept[i % held]);
      EXPECT_TRUE(all_are(kept[i % held], LargeResult::of(1, 3, 4))) << i;
    }
    EXPECT_EQ(last, held == 3 ? 2 : 1);
  }
}

TEST(LastCalls, OtherAddressesOfInputs) {
  LargeResult l;
  const runtime::Executable e(l.p.finish());
  const at::Tensor x = l.p.tensor(1), b = l.p.tensor(4);
  at::Tensor w = l.p.tensor(3), y;
  for (int i = 0; i < 4; ++i) one(e, {x, w, b});
  EXPECT_EQ(launches(e, {x, w, b}, y), 2);
  y.reset();
  const at::Tensor other = l.p.tensor(5);
  w.unsafeGetTensorImpl()->set_storage_keep_dtype(other.storage());
  for (const int64_t want : {1, 2, 2}) {
    y.reset();
    EXPECT_EQ(launches(e, {x, w, b}, y), want);
    EXPECT_TRUE(all_are(y, LargeResult::of(1, 5, 4)));
  }
  EXPECT_EQ(e.graphs()->recorded, 1);
  // Captures that are not used are not made for ever.
  int64_t twice = 0;
  std::vector<at::Tensor> weights;
  for (int i = 0; i < 16; ++i) {
    weights.push_back(l.p.tensor(static_cast<float>(i)));
    for (int again = 0; again < 2; ++again) {
      y.reset();
      twice += launches(e, {x, weights.back(), b}, y) - 1;
      EXPECT_TRUE(all_are(y, LargeResult::of(1, static_cast<float>(i), 4)));
    }
  }
  EXPECT_LE(twice, 4);
}

// A product with a transposed result is made in memory of its own, then copied.
TEST(LastCalls, ThatAllocateRunDirectly) {
  GpuProgram p(kSide);
  const int x = p.input(), b = p.input(), t = p.arena(), u = p.arena(), y = p.returned();
  artifact::TensorDesc& result = p.a.buffers[static_cast<size_t>(y)].type;
  std::swap(result.strides[0], result.strides[1]);
  p.mix(b, b, t);
  p.mix(t, b, u);
  p.call("aten::linear", {x, u}, y, {artifact::Arg{}});
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor xt = p.tensor(1), bt = p.tensor(2);
  at::Tensor r;
  for (int i = 0; i < 5; ++i) {
    r.reset();
    EXPECT_EQ(launches(e, {xt, bt}, r), i > 0 ? 1 : 0);
    EXPECT_TRUE(all_are(r, kSide * 14)) << i;
  }
  EXPECT_NE(e.graphs()->direct.begin()->first.find("allocates memory"), std::string::npos);
}

// Each request for memory in turn fails, in the calls that capture and launch.
TEST(LastCalls, MemoryRunsOut) {
  for (const int failures : {1, 1000}) {
    for (int call = 2; call < 4; ++call) {
      bool enough = false;
      for (int served = 0; !enough; ++served) {
        LargeResult l;
        const at::Tensor x = l.p.tensor(1), w = l.p.tensor(3), b = l.p.tensor(4);
        const float want = LargeResult::of(1, 3, 4);
        const runtime::Executable e(l.p.finish());
        for (int i = 0; i < call; ++i) EXPECT_TRUE(ran(e, {x, w, b}, want, 0, 0));
        ran(e, {x, w, b}, want, served, failures);
        enough = gpu::requests() <= served;
        for (int i = 0; i < 3; ++i)
          EXPECT_TRUE(ran(e, {x, w, b}, want, 0, 0)) << "call " << call << " after " << served;
        at::Tensor y;
        EXPECT_EQ(launches(e, {x, w, b}, y), 2) << "call " << call << " after " << served;
      }
    }
  }
  runtime::ReplayStream::trim_all();
}

TEST(LastCalls, TwoThreads) {
  LargeResult l;
  const runtime::Executable e(l.p.finish());
  const at::Tensor w = l.p.tensor(3);
  const auto calls = [&](float b) {
    const at::Tensor bias = l.p.tensor(b), x[] = {l.p.tensor(1), l.p.tensor(2)};
    at::Tensor y;
    for (int i = 0; i < 40; ++i) {
      y = one(e, {x[i % 2], w, bias});
      EXPECT_TRUE(all_are(y, LargeResult::of(static_cast<float>(1 + i % 2), 3, b)));
      if (i % 10 == 0) e.graphs();
    }
  };
  std::thread other([&] { calls(2); });
  calls(4);
  other.join();
}

}  // namespace
