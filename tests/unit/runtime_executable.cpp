// Artifacts made by hand, run and refused.
#include "runtime/executable.h"

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/resolver.h"
#include "runtime_sample.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

TEST(Executable, RunsKernelsThroughTheArena) {
  runtime::Executable e(pointwise(false));
  const at::Tensor x = at::randn({4, 8});
  std::vector<at::Tensor> in = {x};
  ASSERT_TRUE(e.accepts(in, {}));
  const at::Tensor y = run_one(e, in);
  EXPECT_TRUE(at::equal(y, 2 * (2 * x + 1) + 1));
  const at::Tensor kept = y.clone();
  const at::Tensor z = run_one(e, {y});
  EXPECT_TRUE(at::equal(y, kept));
  EXPECT_TRUE(at::equal(z, 2 * (2 * y + 1) + 1));
}

TEST(Executable, SaysWhatDoesNotFit) {
  runtime::Executable e(pointwise(false));
  auto why = [&](const at::Tensor& x) {
    std::string text;
    std::vector<at::Tensor> in = {x};
    EXPECT_FALSE(e.accepts(in, {}, &text));
    return text;
  };
  EXPECT_EQ(why(at::randn({5, 8})), "input 0 (x): size 0 is 5 instead of 4");
  EXPECT_EQ(why(at::randn({8, 4}).t()), "input 0 (x): stride 0 is 1 instead of 8");
  EXPECT_EQ(why(at::randn({4, 8}, at::kDouble)), "input 0 (x): dtype Double instead of Float");
  EXPECT_EQ(why(at::randn({4})), "input 0 (x): 1 dimensions instead of 2");
  EXPECT_EQ(why(at::Tensor()), "input 0 (x) is undefined");
  EXPECT_NE(why(at::randn({4, 8}).to_sparse()), "");
  EXPECT_NE(why(at::empty({4, 8}, at::kMeta)), "");
}

TEST(Executable, SymbolicSizes) {
  runtime::Executable e(pointwise(true));
  for (int64_t rows : {3, 4, 17, 3, 9, 1000, 11, 12, 13, 14, 15, 3}) {
    const at::Tensor x = at::randn({rows, 8});
    std::vector<at::Tensor> in = {x};
    ASSERT_TRUE(e.accepts(in, {}));
    EXPECT_TRUE(at::equal(run_one(e, in), 2 * (2 * x + 1) + 1)) << rows;
  }
  std::vector<at::Tensor> one_row = {at::randn({1, 8})};
  std::string why;
  EXPECT_FALSE(e.accepts(one_row, {}, &why));
  EXPECT_EQ(why, "s0 >= 2 does not hold (1 and 2)");
}

// x[s0, 8] times the integer s1, and s0 + s1.
Artifact scaled_by_integer() {
  static const auto scale = std::make_shared<machine::Object>(machine::Object{machine::Form::Text, "scale",
                                                                              R"(kernel
size s0
size s1
range p0 parallel s0
range i0 inner 8
buffer b0 f32 read
buffer b1 f32 write
stage loop
  %0 = load f32 b0[8*p0 + i0]
  %1 = index i64 [s1]
  %2 = cast f32 %1
  %3 = mul f32 %0 %2
  store f32 b1[8*p0 + i0] %3
)"});
  Artifact a;
  a.symbols = {{0, 0, false}, {artifact::kArgument, 0, false}};
  a.inputs = {{matrix(symbol(0), constant(8)), false, "x"}};
  const int x = add_buffer(a, Role::Input, matrix(symbol(0), constant(8)), 0);
  const int y = add_buffer(a, Role::Output, matrix(symbol(0), constant(8)), 0);
  artifact::Launch l = launch(x, y, symbol(0), symbol(1));
  l.object = scale;
  l.name = "scale";
  a.steps = {std::move(l)};
  artifact::Output sum;
  sum.kind = artifact::OutputKind::Integer;
  sum.integer = symbol(0);
  sum.integer.steps.push_back({Size::Code::Symbol, 1});
  sum.integer.steps.push_back({Size::Code::Add});
  a.outputs = {fresh(y), std::move(sum)};
  return a;
}

TEST(Executable, IntegersThatKernelsRead) {
  const runtime::Executable e(scaled_by_integer());
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{3, 5}, {3, 5}, {3, -7}, {4, -7}, {3, 0}, {0, 2}, {3, 5}}) {
    const std::vector<at::Tensor> in = {at::randn({rows, 8})};
    const std::vector<int64_t> integers = {n};
    ASSERT_TRUE(e.accepts(in, integers));
    std::vector<c10::IValue> out;
    e.run(in, integers, out);
    EXPECT_TRUE(at::equal(out[0].toTensor(), in[0] * n)) << rows << " " << n;
    EXPECT_EQ(out[1].toInt(), rows + n);
  }
}

TEST(Executable, IntegersThatKernelsReadNeedNoSizesAnew) {
  using Values = std::vector<int64_t>;
  const auto has_same_sizes = [](const Artifact& a, const Values& one, const Values& other) {
    runtime::Resolver resolver(a, {{}, std::vector<const c10::FunctionSchema*>(a.steps.size())});
    return resolver.first(one) == resolver.first(other);
  };
  Artifact a = scaled_by_integer();
  EXPECT_TRUE(has_same_sizes(a, {3, 5}, {3, 6}));
  EXPECT_FALSE(has_same_sizes(a, {3, 5}, {4, 5}));
  auto& l = std::get<artifact::Launch>(a.steps[0]);
  l.offsets[1] = times(symbol(1), 0);
  EXPECT_FALSE(has_same_sizes(a, {3, 5}, {3, 6}));
  l.offsets[1] = constant(0);
  l.scratch = symbol(1);
  EXPECT_FALSE(has_same_sizes(a, {3, 5}, {3, 6}));
  l.scratch = constant(0);
  EXPECT_TRUE(has_same_sizes(a, {3, 5}, {3, 6}));
  a.buffers[1].type.strides[1] = symbol(1);
  EXPECT_FALSE(has_same_sizes(a, {3, 5}, {3, 6}));
  a = scaled_by_integer();
  a.device = Device{DeviceType::CUDA, 0};  // its graphs hold the integer
  EXPECT_FALSE(has_same_sizes(a, {3, 5}, {3, 6}));
}

TEST(Executable, ManyThreadsRunOneArtifact) {
  runtime::Executable e(pointwise(true));
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const at::Tensor x = at::full({2 + (t * 7 + i) % 20, 8}, t * 1000 + i, at::kFloat);
        EXPECT_TRUE(at::equal(run_one(e, {x}), 4 * x + 3));
      }
    });
  }
  for (auto& t : threads) t.join();
}

artifact::Extern extern_call(std::string op, std::vector<artifact::Arg> args, std::vector<int> results) {
  artifact::Extern e;
  e.op = std::move(op);
  e.args = std::move(args);
  e.results = std::move(results);
  return e;
}

// relu(x @ w): mm into the arena, or returned.
Artifact product(Role role) {
  Artifact a;
  a.is_static = true;
  const auto t = matrix(constant(4), constant(4));
  a.inputs = {{t, false, "x"}, {t, true, "w"}};
  const int x = add_buffer(a, Role::Input, t, 0);
  const int w = add_buffer(a, Role::Input, t, 1);
  const int p = add_buffer(a, role, t);
  const int y = add_buffer(a, Role::Output, t, 0);
  if (role == Role::Arena) a.arena.offsets[p] = 0;
  a.arena.kept_bytes = 64;
  a.steps = {extern_call("aten::mm", {{whole(x)}, {whole(w)}}, {p}), extern_call("aten::relu", {{whole(p)}}, {y})};
  a.outputs = {fresh(y)};
  return a;
}

TEST(Executable, ExternCalls) {
  for (Role role : {Role::Arena, Role::Returned}) {
    runtime::Executable e(product(role));
    const at::Tensor x = at::randn({4, 4}), w = at::randn({4, 4});
    EXPECT_TRUE(at::equal(run_one(e, {x, w}), at::relu(at::mm(x, w))));
  }
}

TEST(Executable, AnUnknownOperatorIsRefusedAtOnce) {
  Artifact a = product(Role::Returned);
  std::get<artifact::Extern>(a.steps[0]).op = "aten::no_such_operator";
  EXPECT_THROW(runtime::Executable{std::move(a)}, Unsupported);
}

// A result that aliases an argument must not be handed out, nor live in the arena's memory.
TEST(Executable, AliasesAreCopied) {
  auto [a, type, x, twice] = InArena();
  const int r = add_buffer(a, Role::Returned, type);
  const int same = add_buffer(a, Role::Returned, type);
  a.steps.push_back(extern_call("aten::contiguous", {{whole(twice)}, {MemoryFormat::Contiguous}}, {r}));
  a.steps.push_back(extern_call("aten::contiguous", {{whole(x)}, {MemoryFormat::Contiguous}}, {same}));
  a.outputs = {fresh(r), fresh(same), fresh(r)};
  runtime::Executable e(std::move(a));
  std::vector<at::Tensor> in = {at::randn({4, 8})};
  std::vector<c10::IValue> out;
  e.run(in, {}, out);
  EXPECT_TRUE(at::equal(out[0].toTensor(), 2 * in[0] + 1));
  EXPECT_TRUE(at::equal(out[1].toTensor(), in[0]));
  EXPECT_FALSE(out[1].toTensor().is_alias_of(in[0]));
  EXPECT_FALSE(out[2].toTensor().is_alias_of(out[0].toTensor()));
  EXPECT_TRUE(at::equal(out[2].toTensor(), out[0].toTensor()));
}

// Both blocks begin at offset 0; the early one is gone when the output is made.
TEST(Executable, EarlyBlockOfTheArena) {
  auto [a, type, x, early] = InArena();
  const int kept = add_buffer(a, Role::Arena, type);
  const int y = add_buffer(a, Role::Output, type, 0);
  a.arena.offsets[kept] = 0;
  a.arena.early_bytes = 128;
  a.arena.early_end = 2;
  a.steps = {launch(x, early, constant(4), constant(8)), extern_call("aten::neg", {{whole(early)}}, {kept}),
             launch(kept, y, constant(4), constant(8))};
  a.buffers[early].last_step = 1;
  a.buffers[kept].last_step = 2;
  a.outputs = {fresh(y)};
  runtime::Executable e(std::move(a));
  for (int run = 0; run < 2; ++run) {
    const at::Tensor in = at::randn({4, 8});
    EXPECT_TRUE(at::equal(run_one(e, {in}), 1 - 2 * (2 * in + 1)));
  }
}

// Counts the bytes that this thread allocates from PyTorch's CPU allocator and frees.
struct AllocatedBytes : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    now += bytes;
    most = std::max(most, now);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now = 0, most = 0;
};

// The early block is gone when the kept one is first used. A half of a training step allocates the latter only then.
TEST(Executable, KeptBlockOfATrainingHalfIsAllocatedAtItsFirstUse) {
  const auto peak = [](bool recurs) {
    auto [a, type, x, early] = InArena();
    const int between = add_buffer(a, Role::Returned, type);
    const int kept = add_buffer(a, Role::Arena, type);
    const int y = add_buffer(a, Role::Output, type, 0);
    a.outputs_recur = recurs;
    a.arena.offsets[kept] = 0;
    a.arena.early_bytes = 128;
    a.arena.early_end = 2;
    a.steps = {launch(x, early, constant(4), constant(8)), extern_call("aten::neg", {{whole(early)}}, {between}),
               launch(between, kept, constant(4), constant(8)), launch(kept, y, constant(4), constant(8))};
    a.buffers[early].last_step = 1;
    a.buffers[between].first_step = 1;
    a.buffers[between].last_step = 2;
    a.buffers[kept].first_step = 2;
    a.buffers[kept].last_step = 3;
    a.outputs = {fresh(y)};
    runtime::Executable e(std::move(a));
    const at::Tensor in = at::randn({4, 8}), expected = 2 * (1 - 2 * (2 * in + 1)) + 1;
    const auto bytes = std::make_shared<AllocatedBytes>();
    {
      c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
      EXPECT_TRUE(at::equal(run_one(e, {in}), expected));
    }
    return bytes->most;
  };
  for (const bool recurs : {false, true}) {
    int64_t most = 0;
    std::thread([&] { most = peak(recurs); }).join();  // a new thread has no arena yet
    EXPECT_EQ(most, recurs ? 2 * 128 : 3 * 128);
  }
}

// as_strided counts from the begin of the storage in ATen, from that of the value in an artifact.
TEST(Executable, StridedViewsOfTheArena) {
  auto [a, type, x, twice] = InArena(256);
  const int r = add_buffer(a, Role::Returned, matrix(constant(3), constant(8)));
  auto numbers = [](std::vector<int64_t> list) {
    std::vector<artifact::Size> out;
    for (int64_t n : list) out.push_back(constant(n));
    return out;
  };
  a.steps.push_back(
      extern_call("aten::as_strided", {{whole(twice)}, {numbers({3, 8})}, {numbers({8, 1})}, {constant(8)}}, {r}));
  a.outputs = {fresh(r)};
  runtime::Executable e(std::move(a));
  const at::Tensor in = at::randn({4, 8});
  EXPECT_TRUE(at::equal(run_one(e, {in}), (2 * in + 1).slice(0, 1)));
}

TEST(Executable, ResultsWhoseElementsShareMemory) {
  Artifact a;
  a.is_static = true;
  auto t = matrix(constant(4), constant(8));
  a.inputs = {{matrix(constant(1), constant(8)), false, "x"}};
  const int x = add_buffer(a, Role::Input, a.inputs[0].type, 0);
  t.strides = {constant(0), constant(1)};
  const int y = add_buffer(a, Role::Output, t, 0);
  const int z = add_buffer(a, Role::Returned, t);
  const std::vector<artifact::Size> size{constant(4), constant(8)};
  for (int b : {y, z}) a.steps.push_back(extern_call("aten::expand", {{whole(x)}, {size}, {false}}, {b}));
  a.outputs = {fresh(y), fresh(z)};
  runtime::Executable e(std::move(a));
  const at::Tensor in = at::randn({1, 8});
  std::vector<c10::IValue> out;
  e.run(std::vector<at::Tensor>{in}, {}, out);
  for (const auto& v : out) {
    EXPECT_TRUE(at::equal(v.toTensor(), in.expand({4, 8})));
    EXPECT_EQ(v.toTensor().strides().vec(), (std::vector<int64_t>{0, 1}));
    EXPECT_FALSE(v.toTensor().is_alias_of(in));
  }
}

// swap(x, y), and the old x as an output.
TEST(Executable, CopiesToInputsComeLastAndSeeOldValues) {
  Artifact a;
  a.is_static = true;
  const auto t = matrix(constant(4), constant(8));
  a.inputs = {{t, false, "x"}, {t, false, "y"}};
  a.mutated = {0, 1};
  const int x = add_buffer(a, Role::Input, t, 0);
  const int y = add_buffer(a, Role::Input, t, 1);
  a.steps = {artifact::CopyBack{whole(y), 0}, artifact::CopyBack{whole(x), 1}};
  artifact::Output self;
  self.kind = artifact::OutputKind::Input;
  self.alias = 0;
  a.outputs = {fresh(x), self};
  runtime::Executable e(std::move(a));
  std::vector<at::Tensor> in = {at::randn({4, 8}), at::randn({4, 8})};
  const at::Tensor old_x = in[0].clone(), old_y = in[1].clone();
  const auto version = in[0]._version();
  std::vector<c10::IValue> out;
  e.run(in, {}, out);
  EXPECT_TRUE(at::equal(in[0], old_y));
  EXPECT_TRUE(at::equal(in[1], old_x));
  EXPECT_TRUE(at::equal(out[0].toTensor(), old_x));
  EXPECT_TRUE(out[1].toTensor().is_same(in[0]));
  EXPECT_GT(in[0]._version(), version);
  std::vector<at::Tensor> overlapping = {in[0], in[0]};
  EXPECT_FALSE(e.accepts(overlapping, {}));
}

// y = x @ (2 w + 1), with 2 w + 1 kept.
TEST(Executable, PrepackedConstantsFollowTheirParameters) {
  Artifact a;
  a.is_static = true;
  const auto t = matrix(constant(4), constant(4));
  a.inputs = {{t, false, "x"}, {t, true, "w"}};
  const int x = add_buffer(a, Role::Input, t, 0);
  const int w = add_buffer(a, Role::Input, t, 1);
  const int d = add_buffer(a, Role::Prepacked, t);
  const int y = add_buffer(a, Role::Output, t, 0);
  a.prepacked = {launch(w, d, constant(4), constant(4))};
  a.prepacked_parameters = {1};
  a.steps = {extern_call("aten::mm", {{whole(x)}, {whole(d)}}, {y})};
  a.outputs = {fresh(y)};
  runtime::Executable e(std::move(a));
  const at::Tensor in = at::randn({4, 4});
  at::Tensor weight = at::randn({4, 4});
  auto check = [&] { EXPECT_TRUE(at::equal(run_one(e, {in, weight}), at::mm(in, 2 * weight + 1))); };
  check();
  EXPECT_EQ(e.prepacked_bytes(), 64);
  weight.add_(1);
  check();
  weight = at::randn({4, 4});
  check();
  for (int i = 0; i < 20; ++i) {  // freed and allocated again at the same address
    weight = at::Tensor();
    weight = at::full({4, 4}, i, at::kFloat);
    check();
  }
  weight.set_data(at::randn({4, 4}));
  check();
  {
    c10::InferenceMode inference;
    at::Tensor frozen = at::randn({4, 4});
    EXPECT_TRUE(at::equal(run_one(e, {in, frozen}), at::mm(in, 2 * frozen + 1)));
    frozen.add_(1);
    EXPECT_TRUE(at::equal(run_one(e, {in, frozen}), at::mm(in, 2 * frozen + 1)));
  }
}

void expect_failure_leaves_input(Artifact a) {
  runtime::Executable e(std::move(a));
  std::vector<at::Tensor> in = {at::randn({4, 8})};
  const at::Tensor before = in[0].clone();
  std::vector<c10::IValue> out;
  EXPECT_THROW(e.run(in, {}, out), c10::Error);
  EXPECT_TRUE(at::equal(in[0], before));
}

TEST(Executable, ExternErrorsLeaveInputsAlone) {
  auto [a, type, x, twice] = InArena();
  const int r = add_buffer(a, Role::Returned, type);
  a.mutated = {0};
  a.steps.push_back(extern_call("aten::mm", {{whole(x)}, {whole(x)}}, {r}));
  a.steps.push_back(artifact::CopyBack{whole(twice), 0});
  expect_failure_leaves_input(std::move(a));
}

// 2 * x + 1 replaces x; then 2 * x + 1 again, as a result that no memory holds.
TEST(Executable, InputsAreWrittenWhenAllMemoryIsThere) {
  auto [a, type, x, twice] = InArena();
  const artifact::TensorDesc huge = matrix(constant(int64_t{1} << 30), constant(int64_t{1} << 30));
  const int y = add_buffer(a, Role::Output, huge, 0);
  a.mutated = {0};
  a.steps = {launch(x, x, constant(4), constant(8)), launch(x, y, constant(4), constant(8)),
             artifact::CopyBack{whole(x), 0}};
  a.outputs = {fresh(y)};
  expect_failure_leaves_input(std::move(a));
}

// An input that is a bool: a step that asserts it fails where it is false.
int add_flag(Artifact& a) {
  artifact::TensorDesc type = matrix(constant(1), constant(1));
  type.dtype = DType::Bool;
  a.inputs.push_back({type, false, "flag"});
  return add_buffer(a, Role::Input, type, static_cast<int>(a.inputs.size()) - 1);
}

TEST(Executable, AFailureAfterInputsAreWrittenIsNoReasonToBeginAnew) {
  auto [a, type, x, twice] = InArena();
  const int y = add_buffer(a, Role::Output, type, 0);
  a.mutated = {0};
  a.steps = {launch(x, x, constant(4), constant(8)), artifact::Assert{add_flag(a), "it is false"},
             launch(x, y, constant(4), constant(8)), artifact::CopyBack{whole(x), 0}};
  a.outputs = {fresh(y)};
  runtime::Executable e(std::move(a));
  std::vector<at::Tensor> in = {at::randn({4, 8}), at::zeros({1, 1}, at::kBool)};
  const at::Tensor before = in[0].clone();
  std::vector<c10::IValue> out;
  try {
    e.run(in, {}, out);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const runtime::FailedAfterWriting& error) {
    EXPECT_THROW(std::rethrow_exception(error.cause), c10::Error);
  }
  EXPECT_TRUE(at::equal(in[0], 2 * before + 1));
}

// Elements that nothing has read may be written twice: the failure is one to go on from.
TEST(Executable, AFailureAfterInputsAreOverwrittenIsAnyFailure) {
  auto [a, type, x, twice] = InArena();
  a.inputs.push_back({type, false, "y"});
  const int y = add_buffer(a, Role::Input, type, 1), z = add_buffer(a, Role::Output, type, 0);
  a.mutated = {0};
  artifact::Launch first = launch(y, x, constant(4), constant(8)), last = launch(x, z, constant(4), constant(8));
  first.access = {artifact::kReads, artifact::kWrites};
  last.access = {artifact::kReads, artifact::kWrites};
  a.steps = {first, last, artifact::Assert{add_flag(a), "it is false"}, artifact::CopyBack{whole(x), 0}};
  a.outputs = {fresh(z)};
  runtime::Executable e(std::move(a));
  std::vector<at::Tensor> in = {at::randn({4, 8}), at::randn({4, 8}), at::zeros({1, 1}, at::kBool)};
  std::vector<c10::IValue> out;
  EXPECT_THROW(e.run(in, {}, out), c10::Error);
}

TEST(Executable, GivenAwayInputsAreDropped) {
  runtime::Executable e(product(Role::Returned));
  std::vector<at::Tensor> in = {at::randn({4, 4}), at::randn({4, 4})};
  const at::Tensor expected = at::relu(at::mm(in[0], in[1]));
  std::vector<c10::IValue> out;
  e.run(runtime::CallInputs{in, {}, {}}, out, in);
  EXPECT_FALSE(in[0].defined());
  EXPECT_TRUE(at::equal(out[0].toTensor(), expected));
}

}  // namespace
