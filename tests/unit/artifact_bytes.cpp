// Artifacts as bytes: what comes back is what went in, and damaged bytes are an error or an artifact that is in bounds.
#include "artifact/bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "artifact_sample.h"
#include "vesta/error.h"

namespace vesta::artifact {
namespace {

using vesta::testing::constant;
using vesta::testing::sample;
using vesta::testing::symbol;

TEST(ArtifactBytes, WhatComesBackIsWhatWentIn) {
  Artifact a = sample();
  a.facts.conj_neg = {{0, {true, false}}};
  a.mutated = {0};
  a.prepacked_parameters = {1};
  a.about.kernels = {{"add_exp", {"aten::add.Tensor", "aten::exp"}, 1024, 0.5}};
  a.about.externs = {{"aten::mm", "library op", 3}};
  a.about.ops_fused = 2;
  a.about.key = {{"graph", "%0"}, {"target", "cpu"}};
  Extern call;
  call.op = "aten::everything";
  call.args = {{std::vector<View>{View{}, View{}}},
               {std::vector<Size>{constant(-3), symbol(0)}},
               {std::vector<double>{0.1, -0.0, std::numeric_limits<double>::infinity()}},
               {std::vector<bool>{true, false}},
               {std::complex<double>(1, -2)},
               {Device{DeviceType::CUDA, 3}},
               {Device{DeviceType::CPU, -1}},
               {MemoryFormat::ChannelsLast},
               {Layout::Strided},
               {DType::C64},
               {std::string("a\0b", 3)}};
  a.buffers.push_back({Role::Returned, {DType::Bool, {}, {}, {}}, -1, -1, 0, 4, constant(1)});
  a.arena.offsets.push_back(-1);
  a.buffers[1].last_step = 4;  // an output shows it
  a.steps.emplace_back(call);
  a.steps.emplace_back(Assert{2, "index out of range"});
  const std::string bytes = encode(a);
  const Artifact b = decode(bytes);
  EXPECT_EQ(print(b), print(a));
  EXPECT_EQ(encode(b), bytes);
  EXPECT_EQ(std::get<Launch>(b.steps[0]).object->bytes, "kernel");
  EXPECT_EQ(b.about.kernels[0].ops, a.about.kernels[0].ops);
  EXPECT_EQ(b.about.externs[0].count, 3);
  EXPECT_EQ(b.about.key, a.about.key);
  EXPECT_EQ(decode(encode(Artifact())).steps.size(), 0u);
}

// A kernel of a GPU that takes a number in the CPU's memory.
Artifact of_gpu() {
  const Device gpu{DeviceType::CUDA, 1};
  Artifact a;
  a.device = gpu;
  a.is_static = true;
  a.inputs = {{{DType::F32, gpu, {constant(4)}, {constant(1)}}, false, "x"}, {{DType::F64, {}, {}, {}}, false, "lr"}};
  a.buffers = {{Role::Input, a.inputs[0].type, 0, -1, 0, 0, constant(16)},
               {Role::Input, a.inputs[1].type, 1, -1, 0, 0, constant(8)},
               {Role::Output, a.inputs[0].type, -1, 0, 0, 0, constant(16)}};
  a.arena.offsets = {-1, -1, -1};
  Launch launch;
  launch.object = std::make_shared<machine::Object>(machine::Object{machine::Form::Cuda, "vesta_gpu_1", "kernel"});
  launch.name = "mul";
  launch.buffers = {0, 1, 2};
  launch.access = {kReads, kReads, kWrites};
  launch.offsets = {constant(0), constant(0), constant(0)};
  launch.items = constant(4);
  launch.scratch = launch.item_cost = constant(0);
  launch.grid = {32, 32, 0};
  a.steps = {launch};
  Output out;
  out.view.buffer = 2;
  out.view.whole = true;
  a.outputs = {out};
  return a;
}

TEST(ArtifactBytes, ProgramsOfAGpu) {
  const Artifact a = of_gpu(), b = decode(encode(a));
  EXPECT_EQ(print(b), print(a));
  EXPECT_EQ(to_string(b.device), "cuda:1");
  EXPECT_NE(print(a).find("\ndevice cuda:1\n"), std::string::npos) << print(a);
  const std::vector<std::function<void(Artifact&)>> damages = {
      [](Artifact& x) { x.device = {}; },
      [](Artifact& x) { x.device.index = 0; },
      [](Artifact& x) { x.device = {DeviceType::Other, 0}; },
      [](Artifact& x) { std::get<Launch>(x.steps[0]).access[1] = kReads | kWrites; },
      [](Artifact& x) { std::get<Launch>(x.steps[0]).offsets[1] = constant(8); },
      [](Artifact& x) { x.buffers[1].type.dtype = x.inputs[1].type.dtype = DType::C128; },
      [](Artifact& x) { x.buffers[1].type = x.inputs[1].type = {DType::F32, {}, {constant(4)}, {constant(1)}}; },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    Artifact damaged = of_gpu();
    damages[i](damaged);
    EXPECT_THROW(verify(damaged), InternalError) << i;
  }
}

TEST(ArtifactBytes, EqualObjectsAndSizesAreWrittenOnce) {
  Artifact a = sample();
  const size_t once = encode(a).size();
  std::get<Launch>(a.steps[0]).object =
      std::make_shared<machine::Object>(machine::Object{machine::Form::Text, "vesta_big", std::string(10000, 'x')});
  const Step launch = a.steps[0];
  for (int i = 0; i < 100; ++i) a.steps.push_back(launch);
  EXPECT_LT(encode(a).size(), once + 10000 + 100 * 200);
}

// Each is a field that a run would follow out of its memory.
TEST(ArtifactBytes, NumbersThatPointNowhereAreRefused) {
  const std::vector<std::function<void(Artifact&)>> damages = {
      [](Artifact& a) { a.symbols[0].input = 2; },
      [](Artifact& a) { a.symbols[0].dim = 2; },
      [](Artifact& a) { a.guards[0].left = symbol(2); },
      [](Artifact& a) { a.guards[0].left = Size{{{Size::Code::Constant, 1}, {Size::Code::Add}}}; },
      [](Artifact& a) { a.guards[0].left = Size(); },
      [](Artifact& a) { a.guards[0].left = Size{{{Size::Code::Constant, 1}, {Size::Code::Constant, 1}}}; },
      [](Artifact& a) { a.facts.same[0][1] = 2; },
      [](Artifact& a) { a.facts.offsets[0].first = -1; },
      [](Artifact& a) { a.mutated = {7}; },
      [](Artifact& a) { a.buffers[0].input = 2; },
      [](Artifact& a) { a.buffers[0].last_step = 99; },
      [](Artifact& a) { a.buffers[0].type.strides.pop_back(); },
      [](Artifact& a) { a.arena.offsets.pop_back(); },
      [](Artifact& a) { a.is_static = true; },
      [](Artifact& a) { std::get<Launch>(a.steps[0]).buffers[1] = 2; },
      [](Artifact& a) { std::get<Launch>(a.steps[0]).offsets.pop_back(); },
      [](Artifact& a) { std::get<Launch>(a.steps[0]).access = {1}; },
      [](Artifact& a) { std::get<Extern>(a.steps[1]).results[0] = 2; },
      [](Artifact& a) { std::get<CopyBack>(a.steps[2]).input = -1; },
      [](Artifact& a) { std::get<CopyBack>(a.steps[2]).from.buffer = -1; },
      [](Artifact& a) { a.steps.emplace_back(Assert{-1, ""}); },
      [](Artifact& a) { a.outputs[0].view.buffer = -1; },
      [](Artifact& a) { a.outputs[1].alias = 9; },
      [](Artifact& a) { a.outputs[1].kind = OutputKind::OutputView, a.outputs[1].alias = 1; },
      [](Artifact& a) { a.outputs[0].hidden = true; },
      [](Artifact& a) { std::get<Launch>(a.steps[0]).access[0] = 4; },
      [](Artifact& a) { a.outputs[1].view.buffer = 9; },
      [](Artifact& a) { a.buffers[1].first_step = 3; },
      [](Artifact& a) { a.steps.emplace_back(Assert{1, "a flag of another type"}); },
      // Another input has other sizes; what a kernel reads is as large as its buffer says.
      [](Artifact& a) { a.buffers[0].input = 1; },
      [](Artifact& a) { a.inputs[0].type.sizes[1] = a.inputs[0].type.strides[0] = constant(2); },
  };
  verify(sample());
  for (size_t i = 0; i < damages.size(); ++i) {
    Artifact a = sample();
    damages[i](a);
    EXPECT_THROW(verify(a), InternalError) << "damage " << i;
    EXPECT_THROW(decode(encode(a)), InternalError) << "damage " << i;
  }
}

TEST(ArtifactBytes, ConstantSizesAreComparedWithTheMemory) {
  auto fixed = [] {
    Artifact a;
    a.is_static = true;
    const TensorDesc type{DType::F32, {}, {constant(4)}, {constant(1)}};
    a.buffers = {{Role::Arena, type, -1, -1, 0, 0, constant(16)}};
    a.arena.offsets = {64};
    a.arena.kept_bytes = 128;
    Extern call;
    call.op = "aten::exp";
    call.args = {{View{0, DType::F32, {constant(2)}, {constant(1)}, constant(2), false}}};
    a.steps = {call};
    return a;
  };
  verify(fixed());
  Artifact a = fixed();
  a.buffers[0].bytes = constant(15);
  EXPECT_THROW(verify(a), InternalError);
  a = fixed();
  a.arena.offsets = {128};
  EXPECT_THROW(verify(a), InternalError);
  // The product of offset and size of an element overflows; a negative size behind a zero.
  a = fixed();
  std::get<Extern>(a.steps[0]).args = {
      {View{0, DType::F32, {constant(2)}, {constant(1)}, constant(int64_t{1} << 62), false}}};
  EXPECT_THROW(verify(a), InternalError);
  a = fixed();
  std::get<Extern>(a.steps[0]).args = {
      {View{0, DType::F32, {constant(0), constant(-4)}, {constant(1), constant(1)}, constant(0), false}}};
  EXPECT_THROW(verify(a), InternalError);
  for (const auto& [size, stride, offset] : {std::tuple(3, 1, 2), {2, 3, 2}, {2, 1, -1}, {-1, 1, 0}, {2, -1, 2}}) {
    a = fixed();
    std::get<Extern>(a.steps[0]).args = {
        {View{0, DType::F32, {constant(size)}, {constant(stride)}, constant(offset), false}}};
    EXPECT_THROW(verify(a), InternalError) << size << " " << stride << " " << offset;
  }
}

// Two buffers that follow one another in the arena; a prepacked constant; an input that is written.
Artifact lives() {
  Artifact a;
  a.is_static = true;
  const TensorDesc type{DType::F32, {}, {constant(16)}, {constant(1)}};
  a.inputs = {{type, false, "x"}, {type, true, "w"}};
  a.buffers = {{Role::Input, type, 0, -1, -1, 2, constant(64)},      {Role::Input, type, 1, -1, -1, -1, constant(64)},
               {Role::Prepacked, type, -1, -1, -1, 2, constant(64)}, {Role::Arena, type, -1, -1, 0, 1, constant(64)},
               {Role::Arena, type, -1, -1, 1, 2, constant(64)},      {Role::Arena, type, -1, -1, 2, 2, constant(64)}};
  a.arena.offsets = {-1, -1, -1, 0, 64, 0};
  a.arena.kept_bytes = 128;
  const auto launch = [](std::vector<int> buffers) {
    Launch l;
    l.object = std::make_shared<machine::Object>();
    l.buffers = std::move(buffers);
    l.access = {kReads, kWrites};
    l.offsets = {constant(0), constant(0)};
    l.items = l.scratch = l.item_cost = constant(0);
    return l;
  };
  a.prepacked = {launch({1, 2})};
  a.prepacked_parameters = {1};
  const View x{0, DType::F32, {}, {}, {}, true};
  a.steps = {launch({2, 3}), launch({3, 4}), launch({4, 0}), CopyBack{x, 0}};
  a.buffers[0].last_step = 3;
  a.mutated = {0};
  return a;
}

TEST(ArtifactBytes, BuffersAreUsedWhereTheyLive) {
  verify(lives());
  const auto of = [](Artifact& a, int step) -> Launch& { return std::get<Launch>(a.steps[static_cast<size_t>(step)]); };
  const std::vector<std::function<void(Artifact&)>> damages = {
      [](Artifact& a) { a.arena.offsets[4] = 0; },       // shares memory while both live
      [](Artifact& a) { a.arena.offsets[3] = -1; },      // has no memory
      [](Artifact& a) { a.buffers[4].last_step = 1; },   // read later
      [](Artifact& a) { a.buffers[3].first_step = 1; },  // written earlier
      [](Artifact& a) { a.prepacked.clear(); },          // nobody makes it
      [](Artifact& a) { a.buffers[3].role = Role::Prepacked; },
      [](Artifact& a) {
        a.buffers[2].type.sizes[0] = Size{{{Size::Code::Constant, 1}, {Size::Code::Constant, 15}, {Size::Code::Add}}};
      },
      [&](Artifact& a) { of(a, 0).access[0] = kWrites; },  // the prepacked constant
      [&](Artifact& a) { of(a, 1).buffers[1] = 1; },       // an input that does not change
      [](Artifact& a) { a.steps.pop_back(); },
      [](Artifact& a) { std::get<Launch>(a.prepacked[0]).buffers[1] = 0; },
      [](Artifact& a) { a.buffers[4].type.device.type = DeviceType::Meta; },
      [](Artifact& a) { a.buffers[2].type.device.type = DeviceType::CUDA; },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    Artifact a = lives();
    damages[i](a);
    EXPECT_THROW(verify(a), InternalError) << "damage " << i;
  }
}

TEST(ArtifactBytes, DamagedBytesAreAnErrorOrAnotherArtifact) {
  constexpr int kTries = 20000;
  const std::string whole = encode(sample());
  std::mt19937_64 random(7);
  int errors = 0;
  for (int i = 0; i < kTries; ++i) {
    std::string bytes = whole;
    for (unsigned k = 0; k <= random() % 4; ++k) {
      const size_t at = random() % bytes.size();
      const uint32_t values[] = {
          0, 1, ~0u, 1u << 31, static_cast<uint32_t>(random()), static_cast<uint32_t>(random() % 256)};
      const uint32_t v = values[random() % 6];
      std::memcpy(bytes.data() + at, &v, std::min<size_t>(1 + random() % 4, bytes.size() - at));
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    try {
      print(decode(bytes));
    } catch (const InternalError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, kTries / 4);
  EXPECT_LT(errors, kTries);
}

}  // namespace
}  // namespace vesta::artifact
