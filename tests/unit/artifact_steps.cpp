#include "artifact/steps.h"

#include <gtest/gtest.h>

#include "artifact_sample.h"

namespace {

using namespace vesta;
using vesta::testing::constant;

artifact::Launch launch(std::vector<int> buffers, std::vector<uint8_t> access) {
  artifact::Launch l;
  l.name = "k";
  l.buffers = std::move(buffers);
  l.access = std::move(access);
  return l;
}

artifact::View view(int buffer, std::vector<int64_t> sizes) {
  artifact::View v;
  v.buffer = buffer;
  for (const int64_t n : sizes) v.sizes.push_back(constant(n));
  return v;
}

artifact::Buffer buffer(artifact::Role role, std::vector<int64_t> sizes, int first, int last) {
  artifact::Buffer b;
  b.role = role;
  int64_t bytes = 4;
  for (const int64_t n : sizes) b.type.sizes.push_back(constant(n)), bytes *= n;
  b.bytes = constant(bytes);
  b.first_step = first;
  b.last_step = last;
  return b;
}

// x (2x3) times w (3x4) into a returned tensor; a kernel makes an output of it.
artifact::Artifact product() {
  artifact::Artifact a;
  a.is_static = true;
  a.buffers = {buffer(artifact::Role::Input, {2, 3}, 0, 0), buffer(artifact::Role::Input, {3, 4}, 0, 0),
               buffer(artifact::Role::Returned, {2, 4}, 0, 1), buffer(artifact::Role::Output, {2, 4}, 1, 1),
               buffer(artifact::Role::Arena, {16}, 1, 1)};
  a.buffers[0].input = 0;
  a.buffers[1].input = 1;
  a.arena.kept_bytes = 128;
  artifact::Extern mm;
  mm.op = "aten::mm";
  mm.args = {{view(0, {2, 3})}, {view(1, {3, 4})}};
  mm.results = {2};
  a.steps = {mm, launch({2, 4, 3}, {artifact::kReads, artifact::kWrites, artifact::kWrites})};
  a.about.kernels = {{"k", {"aten::sin"}, 64, 0.5}};
  artifact::Output out;
  out.view = view(3, {2, 4});
  a.outputs = {out};
  return a;
}

TEST(ArtifactSteps, WhatEachReadsMovesAndHolds) {
  const std::vector<StepInfo> steps = artifact::steps_of(product());
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].name, "aten::mm");
  EXPECT_FALSE(steps[0].is_kernel);
  EXPECT_TRUE(steps[0].after.empty());
  EXPECT_EQ(steps[0].flops, 2 * 2 * 3 * 4);
  EXPECT_EQ(steps[0].dtype, "f32");
  EXPECT_EQ(steps[0].bytes, 4 * (6 + 12 + 8));
  EXPECT_EQ(steps[0].arena_bytes, 0);
  EXPECT_EQ(steps[0].held_bytes, 128 + 32);
  EXPECT_TRUE(steps[1].is_kernel);
  EXPECT_EQ(steps[1].ops, std::vector<std::string>{"aten::sin"});
  EXPECT_EQ(steps[1].after, std::vector<int32_t>{0});
  EXPECT_EQ(steps[1].bytes, 64);
  EXPECT_EQ(steps[1].arena_bytes, 64);
  EXPECT_EQ(steps[1].held_bytes, 128 + 32 + 32);
  EXPECT_EQ(artifact::output_bytes_of(product()), 32);
}

TEST(ArtifactSteps, NothingIsKnownOfSizesThatChange) {
  artifact::Artifact a = product();
  a.is_static = false;
  EXPECT_EQ(artifact::steps_of(a)[0].held_bytes, -1);
  EXPECT_EQ(artifact::steps_of(a)[0].flops, 0);
  EXPECT_EQ(artifact::output_bytes_of(a), -1);
}

TEST(ArtifactSteps, ConvolutionsAndAttention) {
  artifact::Artifact a = product();
  a.buffers[2] = buffer(artifact::Role::Returned, {1, 8, 5, 5}, 0, 1);
  artifact::Extern call;
  call.op = "mkldnn::_convolution_pointwise.binary";
  call.args = {{view(0, {1, 2, 7, 7})}, {view(0, {1, 8, 5, 5})}, {view(1, {8, 2, 3, 3})}};
  call.results = {2};
  a.steps[0] = call;
  EXPECT_EQ(artifact::steps_of(a)[0].flops, 2 * 200 * (2 * 3 * 3));
  call.op = "aten::_scaled_dot_product_flash_attention_for_cpu";
  call.args = {{view(0, {1, 2, 5, 8})}, {view(0, {1, 2, 7, 8})}, {view(1, {1, 2, 7, 8})}};
  a.steps[0] = call;
  EXPECT_EQ(artifact::steps_of(a)[0].flops, 2 * (2 * 2 * 5 * 7 * 8));
}

TEST(ArtifactSteps, ProductsOfExperts) {
  artifact::Artifact a = product();
  a.buffers[2] = buffer(artifact::Role::Returned, {6, 5}, 0, 1);
  artifact::Extern call;
  call.args = {{view(0, {6, 4})}, {view(1, {3, 4, 5})}, {view(0, {3})}};
  call.results = {2};
  for (const char* op : {"aten::_grouped_mm", "transformers::grouped_mm_fallback"}) {
    call.op = op;
    a.steps[0] = call;
    EXPECT_EQ(artifact::steps_of(a)[0].flops, 2 * 6 * 4 * 5);
  }
}

TEST(ArtifactSteps, TheStepsOfAnEntryStandWhereItIsCalled) {
  artifact::Artifact a;
  a.entries = {product()};
  a.buffers = {buffer(artifact::Role::Input, {2, 3}, 0, 0), buffer(artifact::Role::Input, {3, 4}, 0, 1),
               buffer(artifact::Role::Arena, {2, 4}, 0, 1), buffer(artifact::Role::Output, {2, 4}, 1, 1)};
  const auto call = [](int from, int to) {
    artifact::Call c;
    c.entry = 0;
    c.inputs = {view(from, {2, 3}), view(1, {3, 4})};
    c.results = {to};
    return c;
  };
  a.steps = {call(0, 2), call(2, 3)};
  const std::vector<StepInfo> steps = artifact::steps_of(a);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].after, std::vector<int32_t>{});
  EXPECT_EQ(steps[1].after, std::vector<int32_t>{0});
  EXPECT_EQ(steps[2].after, std::vector<int32_t>{1});
  EXPECT_EQ(steps[3].after, std::vector<int32_t>{2});
}

}  // namespace
