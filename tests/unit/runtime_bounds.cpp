// Artifacts that say what is not so: an error instead of memory that is not theirs.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "artifact_sample.h"
#include "runtime/executable.h"
#include "vesta/error.h"

namespace {

using namespace vesta;
using artifact::Artifact;
using artifact::Role;
using artifact::Size;
using vesta::testing::constant;
using vesta::testing::symbol;

artifact::View whole(int buffer) { return {buffer, DType::F32, {}, {}, {}, true}; }

// y = op(x, ...), x: [rows, 4].
Artifact calling(const std::string& op, std::vector<artifact::Arg> rest, bool dynamic = false) {
  Artifact a;
  a.is_static = !dynamic;
  if (dynamic) a.symbols = {{0, 0, false}};
  const Size rows = dynamic ? symbol(0) : constant(4);
  Size bytes = rows;
  bytes.steps.push_back({Size::Code::Constant, 16});
  bytes.steps.push_back({Size::Code::Mul});
  const artifact::TensorDesc type{DType::F32, {}, {rows, constant(4)}, {constant(4), constant(1)}};
  a.inputs = {{type, false, "x"}};
  a.buffers = {{Role::Input, type, 0, -1, 0, 0, bytes}, {Role::Arena, type, -1, -1, 0, 0, bytes}};
  a.arena.offsets = {-1, 0};
  a.arena.kept_bytes = 64;
  artifact::Extern call;
  call.op = op;
  call.args = {{whole(0)}};
  call.args.insert(call.args.end(), rest.begin(), rest.end());
  call.results = {1};
  a.steps = {call};
  artifact::Output y;
  y.view = whole(1);
  a.outputs = {y};
  return a;
}

artifact::Extern& call_of(Artifact& a) { return std::get<artifact::Extern>(a.steps[0]); }

void run(Artifact a) {
  const runtime::Executable e(std::move(a));
  const std::vector<at::Tensor> in = {at::randn({4, 4})};
  ASSERT_TRUE(e.accepts(in, {}));
  std::vector<c10::IValue> out;
  e.run(in, {}, out);
}

const artifact::Arg kNone{artifact::NoneArg{}};

TEST(Bounds, ResultsOfCallsAreWhatTheGraphSays) {
  run(calling("aten::relu", {}));
  // Another shape, where the call writes to memory that it is given.
  Artifact a = calling(
      "aten::mm",
      {{artifact::View{0, DType::F32, {constant(4), constant(2)}, {constant(4), constant(1)}, constant(0), false}}});
  EXPECT_THROW(run(a), InternalError);
  // Fewer.
  a = calling("aten::relu", {});
  call_of(a).results = {1, -1};
  EXPECT_THROW(run(a), InternalError);
  // Without memory.
  EXPECT_THROW(run(calling("aten::zeros_like", {kNone, kNone, {Device{DeviceType::Meta, -1}}, kNone, kNone})),
               InternalError);
}

TEST(Bounds, AnEnumeratorIsNoNumber) {
  const std::vector<artifact::Arg> rest(5, kNone);
  run(calling("aten::zeros_like", rest));
  for (const size_t argument : {0, 1, 4}) {  // dtype, layout, memory format
    std::vector<artifact::Arg> wrong = rest;
    wrong[argument] = {constant(1000)};
    EXPECT_THROW(run(calling("aten::zeros_like", wrong)), InternalError) << argument;
  }
}

TEST(Bounds, AnOperatorThatWritesItsArgumentsIsRefused) {
  EXPECT_THROW(run(calling("aten::relu_", {})), InternalError);
}

TEST(Bounds, SizesThatChangeAreComparedWithTheMemory) {
  const auto view = [](int64_t first, Size rows) {
    return artifact::Arg{
        artifact::View{0, DType::F32, {rows, constant(4)}, {constant(4), constant(1)}, constant(first), false}};
  };
  Artifact a = calling("aten::relu", {}, true);
  call_of(a).args = {view(0, symbol(0))};
  run(a);
  call_of(a).args = {view(4, symbol(0))};
  EXPECT_THROW(run(a), InternalError);
  call_of(a).args = {view(-4, symbol(0))};
  EXPECT_THROW(run(a), InternalError);
  Size less = symbol(0);
  less.steps.push_back({Size::Code::Constant, -5});
  less.steps.push_back({Size::Code::Add});
  call_of(a).args = {view(0, less)};
  EXPECT_THROW(run(a), InternalError);
  for (const Size& bytes : {constant(63), constant(-1), constant(int64_t{1} << 60)}) {
    a = calling("aten::relu", {}, true);
    a.buffers[1].bytes = bytes;
    EXPECT_THROW(run(a), InternalError);
  }
}

// Only oneDNN's operators read what they have packed: it has no address.
TEST(Bounds, APackedWeightIsNotForKernels) {
  const auto made_by = [](const std::string& op) {
    Artifact a = calling("aten::relu", {});
    a.inputs[0].parameter = true;
    a.buffers.push_back(a.buffers[0]);
    a.buffers[2].role = Role::Prepacked;
    a.buffers[2].input = -1;
    a.arena.offsets.push_back(-1);
    artifact::Extern pack;
    pack.op = op;
    pack.args = {{whole(0)}, kNone};
    pack.results = {2};
    a.prepacked = {pack};
    a.prepacked_parameters = {0};
    artifact::Launch l;
    l.object = std::make_shared<machine::Object>(machine::Object{machine::Form::Text, "negate 16", R"(kernel
range p0 parallel 16
buffer b0 f32 read
buffer b1 f32 write
stage
  %0 = load f32 b0[p0]
  %1 = neg f32 %0
  store f32 b1[p0] %1
)"});
    l.buffers = {2, 1};
    l.access = {artifact::kReads, artifact::kWrites};
    l.offsets = {constant(0), constant(0)};
    l.items = constant(16);
    l.scratch = l.item_cost = constant(0);
    a.steps = {l};
    return a;
  };
  Artifact plain = made_by("aten::clone");
  run(plain);
  EXPECT_THROW(run(made_by("aten::to_mkldnn")), InternalError);
}

}  // namespace
