// Further entry points of an artifact, and steps that call them.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "artifact/bytes.h"
#include "runtime_sample.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

artifact::Call call(int entry, int from, int to) {
  artifact::Call c;
  c.entry = entry;
  c.inputs = {whole(from)};
  c.results = {to};
  c.source = "model.py:7";
  return c;
}

void finish(Artifact& a) {
  for (artifact::Buffer& b : a.buffers) b.last_step = static_cast<int>(a.steps.size()) - 1;
  for (Artifact& e : a.entries) finish(e);
}

// x of `rows` lines of 8 through entry 0 (two kernels and an arena, 4x + 3) `times` times.
Artifact repeated(int times, bool dynamic) {
  Artifact a;
  const Size rows = dynamic ? symbol(0) : constant(4);
  a.is_static = !dynamic;
  if (dynamic) a.symbols = {{0, 0, false}};
  const artifact::TensorDesc type = matrix(rows, constant(8));
  a.inputs = {{type, false, "x"}};
  int from = add_buffer(a, Role::Input, type, 0);
  for (int i = 0; i < times; ++i) {
    const bool last = i + 1 == times;
    const int to = add_buffer(a, last ? Role::Output : Role::Returned, type, last ? 0 : -1);
    a.steps.emplace_back(call(0, from, to));
    from = to;
  }
  a.outputs = {fresh(from)};
  a.entries = {pointwise(dynamic)};
  finish(a);
  return a;
}

at::Tensor expected(at::Tensor x, int times) {
  for (int i = 0; i < times; ++i) x = 4 * x + 3;
  return x;
}

TEST(Entries, ARegionRunsAsOftenAsItIsCalled) {
  for (const bool dynamic : {false, true}) {
    const runtime::Executable e(artifact::decode(artifact::encode(repeated(3, dynamic))));
    for (const int64_t rows : {4, 2, 9}) {
      if (!dynamic && rows != 4) continue;
      const std::vector<at::Tensor> in = {at::randn({rows, 8})};
      ASSERT_TRUE(e.accepts(in, {}));
      const at::Tensor first = run_one(e, in), second = run_one(e, in);
      EXPECT_TRUE(at::allclose(first, expected(in[0], 3)));
      EXPECT_TRUE(at::equal(first, second));
      EXPECT_NE(first.data_ptr(), second.data_ptr());
    }
  }
}

TEST(Entries, WhoeverLoadsAnArtifactMayRunThem) {
  const runtime::Executable e(repeated(1, false));
  ASSERT_EQ(e.entries().size(), 1u);
  const at::Tensor x = at::randn({4, 8});
  EXPECT_TRUE(at::allclose(run_one(*e.entries()[0], {x}), expected(x, 1)));
}

TEST(Entries, AViewOfTheArenaIsAnArgument) {
  InArena own(64);
  Artifact& a = own.a;
  const int y = add_buffer(a, Role::Output, own.type, 0);
  a.steps.emplace_back(call(0, own.twice, y));
  a.outputs = {fresh(y)};
  a.entries = {pointwise(false)};
  finish(a);
  const runtime::Executable e(artifact::decode(artifact::encode(a)));
  const at::Tensor x = at::randn({4, 8});
  EXPECT_TRUE(at::allclose(run_one(e, {x}), 4 * (2 * x + 1) + 3));
}

TEST(Entries, NestedInEachOther) {
  Artifact a = repeated(2, false);
  a.entries = {repeated(2, false)};
  a.entries[0].entries = {repeated(2, false)};
  const runtime::Executable e(artifact::decode(artifact::encode(a)));
  const at::Tensor x = at::randn({4, 8});
  EXPECT_TRUE(at::allclose(run_one(e, {x}), expected(x, 8)));
  const std::string text = artifact::print(a);
  EXPECT_NE(text.find("0: b1 = entry 0(b0)"), std::string::npos) << text;
  EXPECT_NE(text.find("entry 0\n  input 0 x"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  entry 0\n    input 0 x"), std::string::npos) << text;
}

TEST(Entries, ManyThreadsRunOneRegion) {
  const runtime::Executable e(repeated(3, true));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const at::Tensor x = at::full({2 + (t + i) % 4, 8}, 0.5 * t);
        right += at::equal(run_one(e, {x}), expected(x, 3));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 6 * 50);
}

// A region's guards hold for what it is called with, or the call says which does not.
TEST(Entries, AnArgumentThatDoesNotFitIsAnError) {
  Artifact a = repeated(1, true);
  a.entries = {pointwise(false)};  // of 4 lines
  const runtime::Executable e(a);
  EXPECT_NO_THROW(run_one(e, {at::randn({4, 8})}));
  try {
    run_one(e, {at::randn({5, 8})});
    ADD_FAILURE() << "five lines were taken";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("entry 0: input 0 (x): size 0 is 5 instead of 4"), std::string::npos)
        << error.what();
  }
}

// The results of a region are checked like those of an operator.
TEST(Entries, AResultOfAnotherSizeIsAnError) {
  Artifact a = repeated(1, false);
  a.buffers[1].type = matrix(constant(4), constant(4));
  EXPECT_THROW(run_one(runtime::Executable(a), {at::randn({4, 8})}), InternalError);
}

// dropout draws in the region; a step of the caller then fails: the generator is as it was.
TEST(Entries, RandomNumbersOfARegionThatFailsLaterAreGivenBack) {
  Artifact region;
  region.is_static = true;
  const artifact::TensorDesc type = matrix(constant(4), constant(8));
  region.inputs = {{type, false, "x"}};
  const int x = add_buffer(region, Role::Input, type, 0), y = add_buffer(region, Role::Returned, type);
  artifact::Extern drop;
  drop.op = "aten::dropout";
  drop.args = {{whole(x)}, {0.5}, {true}};
  drop.results = {y};
  region.steps = {drop};
  region.outputs = {fresh(y)};
  Artifact a = repeated(2, false);
  a.entries = {region, pointwise(false)};
  a.entries[1].inputs[0].type = matrix(constant(5), constant(8));  // refuses every call of step 1
  a.entries[1].buffers[0].type = a.entries[1].inputs[0].type;
  std::get<artifact::Call>(a.steps[1]).entry = 1;
  finish(a);
  const runtime::Executable e(a);
  at::manual_seed(3);
  const at::Tensor before = at::rand({4});
  at::manual_seed(3);
  EXPECT_THROW(run_one(e, {at::randn({4, 8}, at::make_generator<at::CPUGeneratorImpl>(1))}), InternalError);
  EXPECT_TRUE(at::equal(at::rand({4}), before));
}

TEST(Entries, CallsOfWhatIsNoRegionAreRefused) {
  const std::vector<std::function<void(Artifact&)>> damages = {
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).entry = 1; },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).entry = -1; },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).inputs.clear(); },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).inputs[0].buffer = -1; },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).inputs[0].buffer = 9; },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).results.clear(); },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).results[0] = 9; },
      [](Artifact& a) { std::get<artifact::Call>(a.steps[0]).results[0] = 0; },  // an input
      [](Artifact& a) { a.entries[0].mutated = {0}; },
      [](Artifact& a) { a.entries[0].steps.emplace_back(artifact::CopyBack{whole(1), 0}); },
      [](Artifact& a) { a.entries[0].prepacked = {a.entries[0].steps[0]}; },
      [](Artifact& a) { a.prepacked = {a.steps[0]}; },
      [](Artifact& a) { a.entries[0].outputs[0].hidden = true; },
      [](Artifact& a) {
        a.entries[0].outputs[0] = {};
        a.entries[0].outputs[0].kind = artifact::OutputKind::Input;
        a.entries[0].outputs[0].alias = 0;
      },
      [](Artifact& a) { a.entries[0].symbols = {{-1, 0, false}}, a.entries[0].is_static = false; },
      [](Artifact& a) { std::get<artifact::Launch>(a.entries[0].steps[0]).buffers[0] = 9; },
      [](Artifact& a) {
        for (int i = 0; i < 10; ++i) {
          Artifact outer = repeated(1, false);
          outer.entries = {a};
          a = outer;
        }
      },
  };
  artifact::verify(repeated(2, false));
  for (size_t i = 0; i < damages.size(); ++i) {
    Artifact a = repeated(2, false);
    damages[i](a);
    EXPECT_THROW(artifact::verify(a), InternalError) << "damage " << i;
    EXPECT_THROW(artifact::decode(artifact::encode(a)), InternalError) << "damage " << i;
  }
}

}  // namespace
