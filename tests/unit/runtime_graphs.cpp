// Tests which steps go into CUDA graphs and where memory of their calls lies. Without a GPU: nothing is captured.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "runtime/cuda/allocation_log.h"
#include "runtime/cuda/graph_plan.h"
#include "runtime/device_launch.h"
#include "runtime_sample.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using runtime::Address;
using runtime::AllocationEvent;
using runtime::GraphPlan;

constexpr Device kGpu{DeviceType::CUDA, 0};
constexpr int64_t kSide = 64;

// A program of 64x64 matrices on a GPU.
class Program {
 public:
  Artifact a;

  int input(Device device = kGpu) {
    artifact::TensorDesc type = type_of(kSide, device);
    a.inputs.push_back({type, false, "x"});
    return add(Role::Input, std::move(type), static_cast<int>(a.inputs.size()) - 1);
  }
  int arena() { return add(Role::Arena, type_of(kSide, kGpu), -1); }
  int returned(int64_t rows = kSide) { return add(Role::Returned, type_of(rows, kGpu), -1); }
  int output(int64_t rows = kSide) { return add(Role::Output, type_of(rows, kGpu), outputs_++); }
  void show(int buffer) { a.outputs.push_back(fresh(buffer)); }

  int kernel(int from, int to) {
    artifact::Launch l = launch(from, to, constant(4), constant(8));
    l.grid = {256, 1, 0};
    a.steps.emplace_back(std::move(l));
    return static_cast<int>(a.steps.size()) - 1;
  }
  int call(const std::string& op, std::vector<int> from, int to, std::vector<artifact::Arg> more = {}) {
    artifact::Extern e;
    e.op = op;
    for (int b : from) e.args.push_back({whole(b)});
    for (artifact::Arg& arg : more) e.args.push_back(std::move(arg));
    e.results = {to};
    a.steps.emplace_back(std::move(e));
    return static_cast<int>(a.steps.size()) - 1;
  }

  GraphPlan plan(const runtime::GraphFacts& facts = {}) const {
    runtime::Resolved sizes;
    for (const artifact::Buffer& b : a.buffers) {
      runtime::ResolvedTensor t;
      t.dtype = c10::kFloat;
      t.sizes = {b.type.sizes[0].steps[0].value, kSide};
      t.strides = {kSide, 1};
      sizes.buffers.push_back(std::move(t));
    }
    return runtime::plan_graphs(a, static_cast<int>(a.steps.size()), sizes, kGpu, facts);
  }

 private:
  static artifact::TensorDesc type_of(int64_t rows, Device device) {
    artifact::TensorDesc type = matrix(constant(rows), constant(kSide));
    type.device = device;
    return type;
  }
  int add(Role role, artifact::TensorDesc type, int index) { return add_buffer(a, role, std::move(type), index); }
  int outputs_ = 0;
};

std::vector<std::pair<int, int>> ranges(const GraphPlan& plan) {
  std::vector<std::pair<int, int>> out;
  for (const GraphPlan::Range& g : plan.graphs) out.emplace_back(g.begin, g.end);
  return out;
}
using Ranges = std::vector<std::pair<int, int>>;

TEST(GraphPlan, AddressesOfKernelsChangeAndThoseOfCallsDoNot) {
  Program p;
  const int x = p.input(), w = p.input(), bias = p.input();
  const int product = p.returned(), mixed = p.arena(), y = p.output();
  p.call("aten::mm", {x, w}, product);
  p.kernel(product, mixed);
  p.kernel(mixed, y);
  p.kernel(bias, mixed);
  p.show(y);
  const GraphPlan plan = p.plan();
  EXPECT_EQ(ranges(plan), (Ranges{{0, 4}}));
  EXPECT_EQ(plan.addresses[x], Address::Fixed);
  EXPECT_EQ(plan.addresses[w], Address::Fixed);
  EXPECT_EQ(plan.addresses[bias], Address::Any);
  EXPECT_EQ(plan.addresses[product], Address::Own);
  EXPECT_EQ(plan.addresses[y], Address::Any);
}

TEST(GraphPlan, OutputsThatRecurAreGivenToTheCallsOfAGraph) {
  for (const bool recur : {true, false}) {
    Program p;
    const int x = p.input(), w = p.input(), bias = p.input();
    const int read = p.output(), product = p.output(), alone = p.output();
    p.kernel(x, read);
    p.call("aten::mm", {read, w}, product);
    p.kernel(bias, alone);
    for (const int b : {read, product, alone}) p.show(b);
    p.a.outputs_recur = true;
    runtime::GraphFacts facts;
    facts.recur = recur;
    const GraphPlan plan = p.plan(facts);
    EXPECT_EQ(ranges(plan), (Ranges{{0, 3}}));
    EXPECT_EQ(plan.addresses[read], recur ? Address::Given : Address::Own);
    EXPECT_EQ(plan.addresses[product], recur ? Address::Given : Address::Own);
    EXPECT_EQ(plan.addresses[alone], Address::Any);
    EXPECT_EQ(plan.given, recur ? (std::vector<int>{read, product}) : std::vector<int>());
  }
}

TEST(GraphPlan, RandomNumbersAndForeignOperatorsAndOtherDevicesRunBeside) {
  const artifact::Arg half{0.5}, on{true}, off{false};
  EXPECT_FALSE(runtime::why_direct({}, Program().a.steps.emplace_back(artifact::Assert{}), kGpu).empty());
  for (const auto& [op, more, direct] :
       std::vector<std::tuple<std::string, std::vector<artifact::Arg>, bool>>{{"aten::bernoulli", {}, true},
                                                                              {"aten::dropout", {half, on}, true},
                                                                              {"aten::dropout", {half, off}, false},
                                                                              {"aten::nonzero", {}, true},
                                                                              {"aten::relu", {}, false},
                                                                              {"prims::sum", {}, true}}) {
    Program p;
    const int x = p.input(), t = p.returned();
    const int step = p.call(op, {x}, t, more);
    EXPECT_EQ(!runtime::why_direct(p.a, p.a.steps[step], kGpu).empty(), direct) << op;
  }
  Program p;
  const int x = p.input(), number = p.input({DeviceType::CPU, 0}), other = p.input({DeviceType::CUDA, 1});
  EXPECT_FALSE(
      runtime::why_direct(p.a, p.a.steps[p.call("aten::mul.Tensor", {x, number}, p.returned())], kGpu).empty());
  EXPECT_FALSE(runtime::why_direct(p.a, p.a.steps[p.call("aten::mul.Tensor", {x, other}, p.returned())], kGpu).empty());
  // Only a mask makes the size of index's result a secret of the GPU.
  for (const DType places : {DType::I64, DType::Bool}) {
    artifact::View none, at;
    at.buffer = x;
    at.dtype = places;
    const artifact::Arg list{std::vector<artifact::View>{none, at}};
    const int step = p.call("aten::index.Tensor", {x}, p.returned(), {list});
    EXPECT_EQ(runtime::why_direct(p.a, p.a.steps[step], kGpu).empty(), places == DType::I64);
  }
}

TEST(GraphPlan, WhatAStepBesideTheGraphsMakesIsNoCallsInOne) {
  Program p;
  const int x = p.input(), w = p.input();
  const int a = p.arena(), b = p.arena(), drawn = p.returned(), product = p.returned(), y = p.output();
  p.kernel(x, a);
  p.kernel(a, b);
  p.call("aten::bernoulli", {b}, drawn);
  p.call("aten::mm", {drawn, w}, product);  // reads it: beside, too
  p.kernel(drawn, a);                       // a kernel may read it
  p.kernel(product, b);
  p.kernel(b, y);
  p.show(y);
  const GraphPlan plan = p.plan();
  EXPECT_EQ(ranges(plan), (Ranges{{0, 2}, {4, 7}}));
  EXPECT_NE(plan.direct[2].find("random"), std::string::npos);
  EXPECT_FALSE(plan.direct[3].empty());
  EXPECT_EQ(plan.addresses[drawn], Address::Any);
  EXPECT_EQ(plan.addresses[w], Address::Any);  // no graph has the call
}

TEST(GraphPlan, ChangingInputsAndRefusedSteps) {
  Program p;
  const int x = p.input(), w = p.input();
  const int t = p.returned(), a = p.arena(), b = p.arena(), y = p.output();
  p.call("aten::mm", {x, w}, t);
  p.kernel(t, a);
  p.call("aten::relu", {a}, b);
  p.kernel(b, y);
  p.show(y);
  EXPECT_EQ(ranges(p.plan()), (Ranges{{0, 4}}));
  runtime::GraphFacts facts;
  facts.changing = {x};
  EXPECT_EQ(ranges(p.plan(facts)), (Ranges{{1, 4}}));
  facts.refused = {{2, "it synchronizes"}};
  const GraphPlan none = p.plan(facts);  // what is left are single steps
  EXPECT_TRUE(none.graphs.empty());
  EXPECT_EQ(none.direct[2], "it synchronizes");
  EXPECT_FALSE(none.why_none.empty());
}

TEST(GraphPlan, LargeResultsOfTheLastCallsAreMadeDirectly) {
  for (const int64_t rows : {int64_t{64}, int64_t{1} << 14}) {
    Program p;
    const int x = p.input(), w = p.input(), a = p.arena(), b = p.arena(), y = p.output(rows);
    p.kernel(x, a);
    p.kernel(a, b);
    p.call("aten::mm", {b, w}, y);
    p.show(y);
    EXPECT_EQ(ranges(p.plan()), rows == 64 ? (Ranges{{0, 3}}) : (Ranges{{0, 2}}));
    EXPECT_EQ(p.plan().last_calls, rows == 64 ? 3 : 2);
    runtime::GraphFacts facts;
    facts.refused = {{2, "it synchronizes"}};
    EXPECT_EQ(p.plan(facts).last_calls, 3);
  }
  // ATen writes the result of a product into memory that a run has for it, that of other operators into its own.
  {
    Program p;
    const int x = p.input(), a = p.arena(), b = p.arena(), y = p.returned(1 << 14), z = p.returned(1 << 14);
    p.kernel(x, a);
    p.kernel(a, b);
    p.call("aten::relu", {b}, y);
    p.call("aten::mm", {b, x}, z);
    p.show(y);
    p.show(z);
    EXPECT_EQ(ranges(p.plan()), (Ranges{{0, 2}}));
    EXPECT_EQ(p.plan().last_calls, 3);
    std::swap(p.a.steps[2], p.a.steps[3]);
    EXPECT_EQ(p.plan().last_calls, 4);
  }
  // In the middle they are copied, unless that would be most of the work.
  Program p;
  const int x = p.input(), w = p.input(), large = p.returned(1 << 16), y = p.output();
  p.call("aten::mm", {x, w}, large);
  p.kernel(large, y);
  p.show(y);
  p.show(large);
  const GraphPlan plan = p.plan();
  EXPECT_TRUE(plan.graphs.empty());
  EXPECT_NE(plan.why_none.find("copied"), std::string::npos);
}

TEST(GraphPlan, OneStepIsNoGraph) {
  Program p;
  const int x = p.input(), y = p.output();
  p.kernel(x, y);
  p.show(y);
  EXPECT_TRUE(p.plan().graphs.empty());
}

TEST(GraphPlan, NumbersOfTheCpuAreArgumentsOfKernels) {
  Program p;
  const int x = p.input(), t = p.arena(), y = p.output();
  artifact::Buffer number;
  number.role = Role::Input;
  number.type.dtype = DType::BF16;
  number.input = 1;
  p.a.buffers.push_back(number);
  const int s = static_cast<int>(p.a.buffers.size()) - 1;
  p.kernel(x, t);
  std::get<artifact::Launch>(p.a.steps[0]).buffers.push_back(s);
  EXPECT_EQ(runtime::why_direct(p.a, p.a.steps[0], kGpu), "");
  p.kernel(t, y);
  // Its bits in a cell of an argument; of others the address, and nothing of what a capture has no address for.
  const uint16_t bits[2] = {0xbeef, 0xffff};
  void* const address = const_cast<uint16_t*>(bits);
  void* const cell = runtime::argument_for(p.a.buffers[s], address);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(cell), 0xbeefu);
  EXPECT_EQ(runtime::argument_for(p.a.buffers[x], address), address);
  EXPECT_EQ(runtime::argument_for(p.a.buffers[s], runtime::kElsewhere), runtime::kElsewhere);
  void* cells[] = {address, cell};
  runtime::ResolvedLaunch launch;
  const runtime::DeviceArguments arguments = runtime::arguments_of(cells, 2, launch);
  EXPECT_EQ(*static_cast<uint16_t*>(arguments[1]), 0xbeef);
  EXPECT_EQ(*static_cast<void**>(arguments[0]), address);
}

// ---- Memory

TEST(AllocationLog, BlocksThatLiveTogetherLieApart) {
  // 0 and 1 live together, 2 begins when 0 has ended, 3 lives on.
  const std::vector<AllocationEvent> events = {{0, 1000}, {1, 600}, {0, 0}, {2, 1024}, {1, 0}, {3, 10}, {2, 0}};
  const runtime::BlockPlaces places = runtime::place_blocks(events);
  ASSERT_EQ(places.offsets.size(), 4u);
  const std::vector<int64_t> bytes = {1024, 1024, 1024, 512};
  const std::vector<std::pair<size_t, size_t>> together = {{0, 1}, {1, 2}, {2, 3}};
  for (const auto& [i, j] : together) {
    const bool apart =
        places.offsets[i] + bytes[i] <= places.offsets[j] || places.offsets[j] + bytes[j] <= places.offsets[i];
    EXPECT_TRUE(apart) << i << " and " << j;
  }
  for (int64_t offset : places.offsets) EXPECT_EQ(offset % runtime::kTorchAlignment, 0);
  EXPECT_EQ(places.bytes, 2048);  // each begins where one has ended
}

TEST(AllocationLog, WhatWasLoggedIsServedAgain) {
  const auto log =
      std::make_shared<runtime::AllocationLog>([](size_t n) { return std::malloc(n); }, [](void* p) { std::free(p); });
  void* const first = log->take(100);
  void* const kept = log->take(200);
  EXPECT_EQ(log->held(1), std::vector<const void*>{kept});
  log->give_back(first);
  void* const last = log->take(300);
  EXPECT_EQ(log->blocks(), 3);
  const std::vector<AllocationEvent> events = log->events();
  EXPECT_EQ(events, (std::vector<AllocationEvent>{{0, 100}, {1, 200}, {0, 0}, {2, 300}}));
  log->give_back(kept);
  log->give_back(last);

  const runtime::BlockPlaces places = runtime::place_blocks(events);
  std::vector<char> memory(static_cast<size_t>(places.bytes));
  runtime::PlacedBlocks placed(events, places, memory.data());
  void* const a = placed.take(100);
  void* const b = placed.take(200);
  EXPECT_EQ(a, memory.data() + places.offsets[0]);
  EXPECT_FALSE(placed.complete());
  placed.give_back(a);
  EXPECT_EQ(placed.take(300), memory.data() + places.offsets[2]);
  EXPECT_TRUE(placed.complete());
  placed.give_back(b);  // the log leaves it alive: it may go at any time after
  EXPECT_TRUE(placed.complete());
  EXPECT_THROW(placed.take(100), InternalError);
}

TEST(AllocationLog, AnotherOrderIsNotServed) {
  const std::vector<AllocationEvent> events = {{0, 100}, {0, 0}, {1, 100}};
  const runtime::BlockPlaces places = runtime::place_blocks(events);
  std::vector<char> memory(static_cast<size_t>(places.bytes));
  runtime::PlacedBlocks other_size(events, places, memory.data());
  EXPECT_THROW(other_size.take(101), InternalError);
  EXPECT_FALSE(other_size.complete());
  runtime::PlacedBlocks not_freed(events, places, memory.data());
  not_freed.take(100);
  EXPECT_THROW(not_freed.take(100), InternalError);  // its place is still taken
  EXPECT_FALSE(not_freed.complete());
}

}  // namespace
