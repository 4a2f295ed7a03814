// Recorded calls, with a driver, an allocator and operators that replace a GPU's.
#include <c10/core/StreamGuard.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/fault.h"
#include "base/memory_plan.h"
#include "recorded_run.h"
#include "runtime/cuda/replay_stream.h"
#include "runtime/cuda/torch_cuda.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

constexpr int64_t kSide = 4;

// y = 2 * ((2 * x + b) @ w) + b. A kernel reads x and b, a product reads w.
struct Middle {
  GpuProgram p{kSide};
  Middle() {
    const int x = p.input(), w = p.input(), b = p.input();
    const int t = p.arena(), u = p.returned(), y = p.output();
    p.mix(x, b, t);
    p.mm(t, w, u);
    p.mix(u, b, y);
    p.show(y);
  }
  static float of(float x, float w, float b) { return 2 * (kSide * w * (2 * x + b)) + b; }
};

TEST(RecordedCalls, ResultsAreTheCallers) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const at::Tensor w = m.p.tensor(0.5F), b = m.p.tensor(1);
  std::vector<at::Tensor> kept;
  const int64_t before = gpu::calls().graph_launches;
  for (int i = 0; i < 6; ++i) kept.push_back(one(e, {m.p.tensor(static_cast<float>(i)), w, b}));
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(all_are(kept[i], Middle::of(static_cast<float>(i), 0.5F, 1))) << i;
  EXPECT_EQ(gpu::calls().graph_launches - before, 5);
  EXPECT_EQ(e.graphs()->recorded, 1) << e.graphs()->why_none;
}

TEST(RecordedCalls, KernelsThatFollowKernelsStartEarly) {
  GpuProgram p(kSide);
  const int x = p.input(), w = p.input(), b = p.input();
  const int s = p.arena(), t = p.arena(), u = p.returned(), y = p.output();
  p.mix(x, b, s);
  p.mix(s, b, t);
  p.mm(t, w, u);  // no kernel of ours
  p.mix(u, b, y);
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor xt = p.tensor(1), wt = p.tensor(1), bt = p.tensor(1);
  const int64_t before = gpu::calls().early;
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(all_are(one(e, {xt, wt, bt}), 2 * (kSide * (2 * 3 + 1)) + 1)) << i;
  EXPECT_EQ(gpu::calls().early - before, 1);
}

// Too few steps are left when one cannot be captured: the report says what happened to that one.
TEST(RecordedCalls, TheStepThatCannotBeCapturedIsNamed) {
  GpuProgram p(kSide);
  const int x = p.input(), w = p.input(), t = p.arena(), y = p.returned();
  p.mix(x, w, t);
  p.mm(t, w, y);
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor xt = p.tensor(1), wt = p.tensor(1);
  int captured = 0;
  fault::inject("capture", [&] {
    if (++captured == 2) throw std::bad_alloc();
  });
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(all_are(one(e, {xt, wt}), kSide * 3)) << i;
  fault::inject("capture", nullptr);
  EXPECT_EQ(e.graphs()->recorded, 0);
  EXPECT_NE(e.graphs()->why_none.find("aten::mm: std::bad_alloc"), std::string::npos) << e.graphs()->why_none;
}

// Recordings from before are kept, and have no such step.
TEST(RecordedCalls, TheReportIsOfTheNewestRecording) {
  GpuProgram p(kSide);
  const int x = p.input(), w = p.input();
  const int s = p.arena(), t = p.arena(), u = p.returned(), v = p.arena(), y = p.output();
  p.mix(x, x, s);
  p.mix(s, x, t);
  p.mm(t, w, u);
  p.mix(u, x, v);
  p.mix(v, x, y);
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor xt = p.tensor(1), first = p.tensor(1), second = p.tensor(1);
  for (int i = 0; i < 2; ++i) one(e, {xt, first});
  int captured = 0;
  fault::inject("capture", [&] {
    if (++captured == 3) throw std::bad_alloc();
  });
  for (int i = 0; i < 2; ++i) one(e, {xt, second});
  fault::inject("capture", nullptr);
  const GraphReport report = e.graphs().value();
  EXPECT_EQ(report.kept, 2);
  EXPECT_EQ(report.direct.count("aten::mm: std::bad_alloc"), 1U);
}

TEST(RecordedCalls, OnlyNodesWithAnotherAddressAreChanged) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const at::Tensor x = m.p.tensor(1), other = m.p.tensor(2), w = m.p.tensor(1), b = m.p.tensor(1);
  at::Tensor y;
  for (int i = 0; i < 4; ++i) y = at::Tensor(), y = one(e, {x, w, b});
  const auto changes = [&](const at::Tensor& given, const at::Tensor& bias) {
    const int64_t before = gpu::calls().changed_nodes;
    y.reset();  // so that the next result is where it was
    y = one(e, {given, w, bias});
    return gpu::calls().changed_nodes - before;
  };
  EXPECT_EQ(changes(x, b), 0);
  EXPECT_EQ(changes(other, b), 1);
  EXPECT_TRUE(all_are(y, Middle::of(2, 1, 1)));
  EXPECT_EQ(changes(other, b), 0);
  EXPECT_EQ(changes(other, m.p.tensor(3)), 2);  // b is an argument of two kernels
  EXPECT_TRUE(all_are(y, Middle::of(2, 1, 3)));
  // The same tensor twice, and a result that is an input of the next call.
  EXPECT_EQ(changes(b, b), 2);
  EXPECT_TRUE(all_are(y, Middle::of(1, 1, 1)));
  const at::Tensor z = one(e, {y, w, y});
  EXPECT_TRUE(all_are(z, Middle::of(Middle::of(1, 1, 1), 1, Middle::of(1, 1, 1))));
}

TEST(RecordedCalls, AfterALaunchThatFailed) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const at::Tensor x = m.p.tensor(1), w = m.p.tensor(1), b = m.p.tensor(1), other = m.p.tensor(2);
  for (int i = 0; i < 3; ++i) one(e, {x, w, b});
  for (int at = 0; at < 2; ++at) {  // of two nodes that read b
    one(e, {x, w, b});
    gpu::fail_change_after(at);
    EXPECT_THROW(one(e, {x, w, other}), Error);
    EXPECT_TRUE(all_are(one(e, {x, w, b}), Middle::of(1, 1, 1))) << at;
    EXPECT_TRUE(all_are(one(e, {x, w, other}), Middle::of(1, 1, 2))) << at;
  }
}

TEST(RecordedCalls, TheSameTensorOnOtherMemory) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  at::Tensor x = m.p.tensor(1), w = m.p.tensor(1), b = m.p.tensor(1);
  for (int i = 0; i < 4; ++i) one(e, {x, w, b});
  // The address of an input that only kernels read is an argument.
  x.unsafeGetTensorImpl()->set_storage_keep_dtype(m.p.tensor(5).storage());
  EXPECT_TRUE(all_are(one(e, {x, w, b}), Middle::of(5, 1, 1)));
  EXPECT_EQ(e.graphs()->recorded, 1);
  // A product's input at another address is recorded again, and copied from the second change on.
  std::vector<at::Tensor> held = {w.view({kSide, kSide})};  // memory that is let go would come back
  for (const float value : {2.0F, 3.0F, 4.0F, 5.0F}) {
    held.push_back(m.p.tensor(value));
    w.unsafeGetTensorImpl()->set_storage_keep_dtype(held.back().storage());
    EXPECT_TRUE(all_are(one(e, {x, w, b}), Middle::of(5, value, 1))) << value;
  }
  EXPECT_EQ(e.graphs()->recorded, 3);
  const int64_t before = gpu::calls().copies;
  EXPECT_TRUE(all_are(one(e, {x, w, b}), Middle::of(5, 5, 1)));
  EXPECT_EQ(gpu::calls().copies - before, 1);
  // Another place in the same memory.
  const at::Tensor two = at::cat({m.p.tensor(7), m.p.tensor(8)});
  EXPECT_TRUE(all_are(one(e, {two.narrow(0, 0, kSide), w, b}), Middle::of(7, 5, 1)));
  EXPECT_TRUE(all_are(one(e, {two.narrow(0, kSide, kSide), w, b}), Middle::of(8, 5, 1)));
  EXPECT_FALSE(e.accepts(std::vector<at::Tensor>{two, w, b}, {}));
}

TEST(RecordedCalls, CallsBesideTheGraphs) {
  // The product in the middle reads an input whose place is another at each call, and is too large to be copied.
  GpuProgram p(kSide);
  const int x = p.input(), w = p.input(), b = p.input();
  const int t = p.arena(), u = p.arena(), product = p.returned(), own = p.returned(), v = p.arena(), y = p.output();
  p.mix(b, b, t);
  p.mm(t, w, own);
  p.mix(own, b, u);
  p.mm(x, u, product);
  p.mix(product, own, v);
  p.mix(v, b, y);
  p.show(y);
  p.show(own);
  runtime::GraphOptions options;
  options.copied_bytes = 0;
  const runtime::Executable e(p.finish(), options);
  const at::Tensor wt = p.tensor(1), bt = p.tensor(1);
  const auto run = [&](const at::Tensor& given, const at::Tensor& bias) {
    std::vector<c10::IValue> out;
    e.run(runtime::CallInputs{std::vector<at::Tensor>{given, wt, bias}, {}, {}}, out);
    const float value = on_cpu(given).view({-1})[0].item<float>(), added = on_cpu(bias).view({-1})[0].item<float>();
    const float own_value = kSide * 3 * added, made = kSide * value * (2 * own_value + added);
    EXPECT_TRUE(all_are(out[0].toTensor(), 2 * (2 * made + own_value) + added)) << value << ' ' << added;
    EXPECT_TRUE(all_are(out[1].toTensor(), own_value)) << value << ' ' << added;
  };
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < 9; ++i) {
    inputs.push_back(p.tensor(static_cast<float>(i)));
    run(inputs.back(), bt);
  }
  // A change of a node fails, of two in the first graph and one in the second: what has been changed until then is
  // changed back by the next call.
  const at::Tensor other = p.tensor(2);
  for (int at = 0; at < 3; ++at) {
    gpu::fail_change_after(at);
    EXPECT_THROW(run(inputs[3], other), Error) << at;
    run(inputs[3], bt);
    run(inputs[4], other);
    run(inputs[5], bt);
  }
  const auto report = *e.graphs();
  EXPECT_EQ(report.graphs, 2) << report.why_none;
  EXPECT_EQ(report.direct.size(), 1u);
}

// The first graph has run for another b, the second has not: a later call with this b changes the second.
TEST(RecordedCalls, AfterAStepThatRaisedBetweenGraphs) {
  GpuProgram p(kSide);
  const int x = p.input(), b = p.input();
  const int t = p.arena(), u = p.arena(), inverse = p.returned(), v = p.arena(), y = p.output();
  p.mix(b, b, t);
  p.mix(t, b, u);
  p.call("aten::inverse", {x}, inverse);
  p.mix(inverse, b, v);
  p.mix(v, u, y);
  p.show(y);
  runtime::GraphOptions options;
  options.copied_bytes = 0;
  const runtime::Executable e(p.finish(), options);
  const auto diagonal = [](float value) { return (at::eye(kSide) * value).to(at::Device(at::kCUDA, 0)); };
  const auto run = [&](const at::Tensor& given, float value, const at::Tensor& bias, float added) {
    const at::Tensor found = on_cpu(one(e, {given, bias}));
    EXPECT_TRUE(found.equal(at::eye(kSide) * (4 / value) + 9 * added)) << value << ' ' << added << found;
  };
  const at::Tensor bt = p.tensor(1), other = p.tensor(2), zeros = p.tensor(0);
  std::vector<at::Tensor> inputs;
  for (int i = 0; i < 9; ++i) {
    inputs.push_back(diagonal(i % 2 == 0 ? 2 : 4));
    run(inputs.back(), i % 2 == 0 ? 2 : 4, bt, 1);
  }
  const auto report = *e.graphs();
  ASSERT_GE(report.graphs, 2) << report.why_none;  // the second for each address that the call's result had
  EXPECT_ANY_THROW(one(e, {zeros, other}));
  run(inputs[0], 2, other, 2);
  EXPECT_ANY_THROW(one(e, {zeros, other}));
  run(inputs[1], 4, bt, 1);
}

TEST(RecordedCalls, WrittenInputs) {
  GpuProgram p(kSide);
  const int x = p.input(), w = p.input(), cache = p.input();
  const int t = p.returned(), y = p.output();
  p.mm(x, w, t);
  p.mix(t, x, cache);
  p.mix(cache, x, y);
  p.written(cache);
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor one_w = p.tensor(1);
  at::Tensor a = p.tensor(0), other = p.tensor(0), x1 = p.tensor(1), x2 = p.tensor(2);
  for (int i = 0; i < 8; ++i) {
    const bool second = i % 2 == 1;
    at::Tensor& to = i < 4 || !second ? a : other;
    const float value = second ? 2 : 1, written = 2 * kSide * value + value;
    const int64_t version = to._version();
    EXPECT_TRUE(all_are(one(e, {second ? x2 : x1, one_w, to}), 2 * written + value)) << i;
    EXPECT_TRUE(all_are(to, written)) << i;
    EXPECT_EQ(to._version(), version + 1);
  }
  EXPECT_GT(e.graphs()->kept, 0) << e.graphs()->why_none;
  // An input that is the written one's memory is no input of this program.
  EXPECT_FALSE(e.accepts(std::vector<at::Tensor>{a, one_w, a}, {}));
  EXPECT_FALSE(e.accepts(std::vector<at::Tensor>{x1, one_w, x1.view({kSide, kSide})}, {}));
  at::Tensor moved = p.tensor(0);
  EXPECT_TRUE(e.accepts(std::vector<at::Tensor>{x1, one_w, moved}, {}));
  moved.unsafeGetTensorImpl()->set_storage_keep_dtype(x1.storage());
  EXPECT_FALSE(e.accepts(std::vector<at::Tensor>{x1, one_w, moved}, {}));
  moved.unsafeGetTensorImpl()->set_storage_keep_dtype(a.storage());
  EXPECT_TRUE(all_are(one(e, {x1, one_w, moved}), 2 * (2 * kSide + 1) + 1));
}

// Recordings on a stream share memory. One that was made before a larger one is made again, so that the stream holds
// only what the larger one needs.
TEST(RecordedCalls, SmallerMemoryIsGivenBack) {
  runtime::ReplayStream::trim_all();
  const int64_t before = runtime::RecordedMemory::held();
  constexpr int64_t kCalls = kArenaAlignment;  // there are none
  const auto bytes = [](int64_t side) { return 4 * side * side; };
  constexpr int64_t kSmall = 2000, kLarge = 2500;
  const auto sum = [](int64_t side) {
    GpuProgram p(side);
    const int x = p.input(), t = p.arena(), y = p.output();
    p.mix(x, x, t);
    p.mix(t, x, y);
    p.show(y);
    return p;
  };
  GpuProgram s = sum(kSmall), l = sum(kLarge);
  const runtime::Executable small(s.finish()), large(l.finish());
  const at::Tensor x = s.tensor(1), y = l.tensor(2);
  const auto run = [&] {
    EXPECT_TRUE(all_are(one(small, {x}), 7));
    EXPECT_TRUE(all_are(one(large, {y}), 14));
  };
  for (int i = 0; i < 2; ++i) run();
  EXPECT_EQ(runtime::RecordedMemory::held() - before, bytes(kSmall) + bytes(kLarge) + kCalls);
  for (int i = 0; i < 3; ++i) run();
  EXPECT_EQ(runtime::RecordedMemory::held() - before, bytes(kLarge) + kCalls);
  EXPECT_EQ(small.graphs()->recorded, 2);
  EXPECT_EQ(large.graphs()->recorded, 1);
}

TEST(RecordedCalls, NumbersAreReadAtEachLaunch) {
  GpuProgram p(kSide);
  const int x = p.input(), n = p.number(), w = p.input();
  const int t = p.arena(), u = p.returned(), y = p.output();
  p.mix(x, n, t);
  p.mm(t, w, u);
  p.mix(u, n, y);
  p.show(y);
  const runtime::Executable e(p.finish());
  const at::Tensor number = at::zeros({}), one_w = p.tensor(1), xt = p.tensor(1);
  for (int i = 0; i < 5; ++i) {
    number.fill_(i);
    const auto value = static_cast<float>(i);
    EXPECT_TRUE(all_are(one(e, {xt, number, one_w}), 2 * kSide * (2 + value) + value)) << i;
  }
  EXPECT_EQ(e.graphs()->recorded, 1) << e.graphs()->why_none;
}

TEST(RecordedCalls, InputsThatAreGivenAway) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const at::Tensor w = m.p.tensor(1), b = m.p.tensor(1);
  for (int i = 0; i < 5; ++i) {
    std::vector<at::Tensor> inputs = {m.p.tensor(static_cast<float>(i)), w, b};
    std::vector<c10::IValue> out;
    e.run(runtime::CallInputs{inputs, {}, {}}, out, inputs);
    EXPECT_TRUE(all_are(out[0].toTensor(), Middle::of(static_cast<float>(i), 1, 1))) << i;
    for (const at::Tensor& t : inputs) EXPECT_FALSE(t.defined()) << i;
  }
}

// Each request for memory in turn fails, in the first calls, in the one that records and in later recordings for other
// memory; alone or with all that follow.
TEST(RecordedCalls, MemoryRunsOut) {
  for (const int failures : {1, 1000}) {
    for (int call = 0; call < 5; ++call) {
      for (int served = 0;; ++served) {
        Middle m;
        const at::Tensor x = m.p.tensor(1), b = m.p.tensor(1), w[2] = {m.p.tensor(1), m.p.tensor(2)};
        const auto other = [&](int i) { return static_cast<size_t>(i >= 4); };
        const auto want = [&](int i) { return Middle::of(1, i >= 4 ? 2 : 1, 1); };
        gpu::run_short(0, 0);
        runtime::ReplayStream::trim_all();
        const int64_t before = gpu::allocated_bytes();
        bool enough = false;  // no request of the call failed
        {
          const runtime::Executable e(m.p.finish());
          for (int i = 0; i < call; ++i) EXPECT_TRUE(ran(e, {x, w[other(i)], b}, want(i), 0, 0));
          const bool right = ran(e, {x, w[other(call)], b}, want(call), served, failures);
          enough = gpu::requests() <= served;
          if (!right && failures > 1) {  // nothing is held while the caller runs eager
            runtime::ReplayStream::trim_all();
            EXPECT_EQ(gpu::allocated_bytes(), before) << "call " << call << " after " << served;
          }
          gpu::run_short(0, 0);
          if (right && e.graphs()->recorded == 0 && call == 1) {
            EXPECT_NE(e.graphs()->why_none.find("memory was short"), std::string::npos) << e.graphs()->why_none;
          }
          for (int i = 0; i < 20; ++i)
            EXPECT_TRUE(ran(e, {x, w[other(call)], b}, want(call), 0, 0)) << "call " << call << " after " << served;
          EXPECT_GT(e.graphs()->kept, 0) << e.graphs()->why_none;
        }
        runtime::ReplayStream::trim_all();
        EXPECT_EQ(gpu::allocated_bytes(), before);
        if (!enough) continue;
        EXPECT_GT(served, 0);
        break;
      }
    }
  }
}

// Where memory stays short, few calls try to record. A try takes the two requests that fail here, and the call then
// runs step by step; where none is made, the call itself fails.
TEST(RecordedCalls, RecordingIsTriedAgain) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const at::Tensor x = m.p.tensor(1), w = m.p.tensor(1), b = m.p.tensor(1);
  runtime::ReplayStream::trim_all();
  EXPECT_TRUE(ran(e, {x, w, b}, Middle::of(1, 1, 1), 0, 0));
  std::vector<int> tries;
  for (int i = 0; i < 120; ++i)
    if (ran(e, {x, w, b}, Middle::of(1, 1, 1), 0, 2)) tries.push_back(i);
  EXPECT_EQ(tries, (std::vector<int>{0, 16, 48, 112}));
  EXPECT_NE(e.graphs()->why_none.find("memory was short"), std::string::npos) << e.graphs()->why_none;
  gpu::run_short(0, 0);
  for (int i = 0; i < 130; ++i) EXPECT_TRUE(ran(e, {x, w, b}, Middle::of(1, 1, 1), 0, 0)) << i;
  EXPECT_EQ(e.graphs()->kept, 1) << e.graphs()->why_none;
  EXPECT_EQ(e.graphs()->why_none, "");
}

TEST(RecordedCalls, TwoThreads) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const at::Tensor w = m.p.tensor(1);
  std::atomic<int> wrong{0};
  const auto calls = [&](float b) {
    const at::Tensor bias = m.p.tensor(b);
    for (int i = 0; i < 400; ++i) {
      const auto x = static_cast<float>(i % 7);
      const at::Tensor y = one(e, {m.p.tensor(x), w, bias});
      if (!all_are(y, Middle::of(x, 1, b))) ++wrong;
    }
  };
  std::thread other([&] { calls(2); });
  calls(3);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(e.graphs()->kept, 0) << e.graphs()->why_none;
}

// Kernels of one product may be put on the stream before and after what another thread launches there.
TEST(RecordedCalls, AGraphForAllThreadsHasItsOwnWorkspace) {
  const auto known = gpu::workspaces().size();
  const auto stream = machine::make_capture_stream();  // that no other test uses
  Middle m;
  const runtime::Executable e(m.p.finish());
  const std::vector<at::Tensor> inputs = {m.p.tensor(1), m.p.tensor(2), m.p.tensor(3)};
  const auto calls = [&](int count) {
    const c10::StreamGuard on(runtime::torch_cuda()->stream(stream->native(), 0));
    for (int i = 0; i < count; ++i) EXPECT_TRUE(all_are(one(e, inputs), Middle::of(1, 2, 3)));
  };
  calls(3);
  EXPECT_EQ(e.graphs()->recorded, 1);
  std::thread([&] { calls(1); }).join();
  EXPECT_EQ(e.graphs()->recorded, 1);  // a thread's first call runs step by step
  std::thread([&] { calls(2); }).join();
  EXPECT_EQ(e.graphs()->recorded, 2);
  const auto launched = gpu::calls().graph_launches;
  calls(1);
  std::thread([&] { calls(1); }).join();
  EXPECT_EQ(e.graphs()->recorded, 2);
  EXPECT_EQ(gpu::calls().graph_launches, launched + 2);

  const auto all = gpu::workspaces();
  ASSERT_GT(all.size(), known);
  std::map<void*, std::set<const void*>> by_stream;  // a stream to capture on is of one kind of graphs
  for (size_t i = known; i < all.size(); ++i) by_stream[all[i].stream].insert(all[i].memory);
  const void* const of_all = all.back().memory;
  for (const auto& [stream, memory] : by_stream)
    EXPECT_EQ(memory.contains(of_all), stream == all.back().stream) << "other work uses the graphs' workspace";
}

TEST(RecordedCalls, KernelsBesideGraphsStartEarly) {
  Middle m;
  const runtime::Executable e(m.p.finish());
  const auto call = [&] { return one(e, {m.p.tensor(1), m.p.tensor(2), m.p.tensor(3)}); };
  const auto before = gpu::calls();
  EXPECT_TRUE(all_are(call(), Middle::of(1, 2, 3)));
  EXPECT_EQ(gpu::calls().early_launches, before.early_launches + 2);
  EXPECT_EQ(gpu::calls().launches, before.launches + 2);
}

// In a process of its own: after one refusal, no kernel is launched early.
TEST(RecordedCallsDeathTest, ADriverThatRefusesEarlyLaunchesLaunchesLater) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        gpu::refuse_early_launches(true);
        Middle m;
        const runtime::Executable e(m.p.finish());
        const bool right = all_are(one(e, {m.p.tensor(1), m.p.tensor(2), m.p.tensor(3)}), Middle::of(1, 2, 3));
        std::_Exit(right && gpu::calls().launches == 2 && gpu::calls().early_launches == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
