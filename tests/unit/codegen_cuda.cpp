// Kernels for GPUs become machine code for several generations of them, on a machine that has none.
#include <gtest/gtest.h>

#include <set>

#include "codegen/codegen.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen_prims.h"
#include "cuda_plans.h"
#include "vesta/error.h"

namespace vesta::codegen::testing {
namespace {

using vesta::testing::on_device;
using vesta::testing::softmax_text;

std::vector<std::string> kernels_of(const std::string& text, const Target& target) {
  schedule::Options options;
  options.target = target;
  const schedule::Plan plan = schedule::make_plan(*on_device("cuda:0", text), options);
  std::vector<std::string> out;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) out.push_back(k->text);
  return out;
}

bool is_elf(const machine::Object& o) {
  return o.bytes.starts_with(
      "\x7f"
      "ELF");
}

// Code of each kernel, a cubin, that holds the kernel's name.
void expect_code(const std::vector<std::string>& kernels, int arch) {
  ASSERT_FALSE(kernels.empty());
  std::vector<Request> requests;
  for (const std::string& text : kernels)
    requests.push_back(
        {text, fmt::format("{}_{}", ::testing::UnitTest::GetInstance()->current_test_info()->name(), requests.size())});
  CompileOptions options;
  if (const char* dir = std::getenv("VESTA_TEST_DUMP")) options.dump_dir = dir;
  for (const Result& r : compile(requests, machine::cuda_target_of(arch), options)) {
    EXPECT_EQ(r.object->form, machine::Form::Cuda);
    EXPECT_TRUE(is_elf(*r.object));
    EXPECT_NE(r.object->bytes.find(r.object->symbol), std::string::npos);
  }
}

TEST(CodegenCuda, NvrtcIsFound) {
  std::string why;
  ASSERT_NE(Nvrtc::get(&why), nullptr) << why;
  EXPECT_TRUE(available(machine::cuda_target_of(90)));
}

TEST(CodegenCuda, PlansForThreeGenerations) {
  for (const int arch : {80, 90, 100}) {
    const Target target = machine::cuda_target_of(arch);
    for (const auto& [rows, columns] : {std::pair(512, 96), {3, 4096}, {2, 30000}, {8, 700}})
      for (const char* dtype : {"f32", "bf16", "f16"})
        expect_code(kernels_of(softmax_text(rows, columns, dtype), target), arch);
  }
}

TEST(CodegenCuda, PositionsGathersAndSymbolicSizes) {
  const Target target = machine::cuda_target_of(90);
  expect_code(kernels_of(R"(input %0 : f32[700, 300]@D = parameter "w"
input %1 : i64[5]@D = argument "i"
%2 : f32[5, 300]@D = aten::embedding(%0, %1, -1, false, false)
%3 : i64[5]@D = aten::argmax(%2, 1, false)
output %3
)",
                         target),
              90);
  expect_code(kernels_of(R"(symbol s0 = 40, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 256]@D = argument "x"
%1 : f32[s0]@D = aten::sum.dim_IntList(%0, [1], false)
%2 : f32[s0]@D = aten::exp(%1)
output %2
)",
                         target),
              90);
}

TEST(CodegenCuda, EveryPrimitiveInEveryType) {
  std::vector<std::string> kernels;
  for (const DType t : kComputedTypes) {
    std::string head = "kernel\nthreads 128 team 1 held 0 each 1\n", body;
    head += fmt::format("size s0 >= 1\nrange p0 parallel s0\nbuffer b0 {0} read\nbuffer b1 bool read\n", name(t));
    body +=
        fmt::format("stage\n  %0 = load {0} b0[p0]\n  %1 = load {0} b0[p0 + s0]\n  %2 = load bool b1[p0]\n", name(t));
    int value = 3, buffer = 2;
    for (int prim = 0; prim < kPrimCount; ++prim) {
      const Prim p = static_cast<Prim>(prim);
      if (!is_defined(p, t)) continue;
      const std::string_view out = yields_bool(p) ? "bool" : name(t);
      const char* in[] = {"", " %0", " %0 %1", p == Prim::Select ? " %2 %0 %1" : " %0 %1 %0"};
      head += fmt::format("buffer b{} {} write\n", buffer, out);
      body += fmt::format("  %{} = {} {}{}\n  store {} b{}[p0] %{}\n", value, name(p), name(t), in[arity(p)], out,
                          buffer, value);
      ++value;
      ++buffer;
    }
    kernels.push_back(head + body);
  }
  expect_code(kernels, 90);
}

TEST(CodegenCuda, EveryConversion) {
  std::vector<std::string> kernels;
  for (const DType from : kStoredTypes) {
    std::string head = fmt::format(
        "kernel\nthreads 128 team 1 held 0 each 1\nrange p0 parallel 1000\nbuffer b0 {} read\n", name(from));
    std::string body = fmt::format("stage\n  %0 = load {} b0[p0]\n", name(from));
    int n = 1;
    for (const DType to : kStoredTypes) {
      head += fmt::format("buffer b{} {} write\n", n, name(to));
      body += fmt::format("  %{0} = cast {1} %0\n  store {1} b{0}[p0] %{0}\n", n, name(to));
      ++n;
    }
    kernels.push_back(head + body);
  }
  expect_code(kernels, 90);
}

// A GPU that is newer than NVRTC gets PTX, which its driver finishes; one that is older gets ATen.
TEST(CodegenCuda, UnknownGenerations) {
  const Target newer = machine::cuda_target_of(999), older = machine::cuda_target_of(30);
  ASSERT_TRUE(available(newer));
  const auto code = compile({{kernels_of(softmax_text(512, 96), newer).at(0), "test"}}, newer, {});
  EXPECT_FALSE(is_elf(*code[0].object));
  EXPECT_NE(code[0].object->bytes.find(".entry " + code[0].object->symbol), std::string::npos);
  EXPECT_EQ(code[0].object->bytes.back(), '\0');
  std::string why;
  EXPECT_FALSE(available(older, &why));
  EXPECT_NE(why.find("sm_30"), std::string::npos) << why;
}

TEST(CodegenCuda, EqualKernelsGiveEqualBytes) {
  const Target target = machine::cuda_target_of(90);
  const std::string text = kernels_of(softmax_text(77, 96), target).at(0);
  const std::string first = compile({{text, "a"}}, target, {})[0].object->bytes;
  EXPECT_EQ(first, compile({{text, "b"}}, target, {})[0].object->bytes);
}

}  // namespace
}  // namespace vesta::codegen::testing
