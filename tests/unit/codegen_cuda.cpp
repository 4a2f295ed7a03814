// Kernels for GPUs become machine code for several generations of them, on a machine that has none.
#include <gtest/gtest.h>

#include <set>

#include "codegen/codegen.h"
#include "codegen/cuda/jit_link.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/ptx.h"
#include "codegen_prims.h"
#include "cubin.h"
#include "cuda_plans.h"
#include "graph/passes/pass.h"
#include "machine/cuda/code.h"
#include "machine/cuda/memset_nodes.h"
#include "vesta/error.h"

namespace vesta::codegen::testing {
namespace {

using vesta::testing::on_device;
using vesta::testing::softmax_text;

std::vector<std::string> kernels_of(const graph::Graph& graph, const Target& target) {
  schedule::Options options;
  options.target = target;
  const schedule::Plan plan = schedule::make_plan(graph, options);
  std::vector<std::string> out;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<schedule::KernelStep>(&s)) out.push_back(k->text);
  return out;
}

std::vector<std::string> kernels_of(const std::string& text, const Target& target) {
  return kernels_of(*on_device("cuda:0", text), target);
}

machine::CudaCode code_of(const machine::Object& o) { return machine::read_cuda_code(o.bytes, true); }
bool is_elf(const machine::Object& o) {
  return code_of(o).cubin.starts_with(
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
    const machine::CudaCode code = code_of(*r.object);
    EXPECT_NE(code.cubin.find(r.object->symbol), std::string::npos);
    // For the drivers of later generations.
    EXPECT_EQ(code.arch, arch);
    EXPECT_NE(code.ptx.find(".entry " + r.object->symbol), std::string::npos);
    EXPECT_EQ(code.ptx.back(), '\0');
  }
}

TEST(CodegenCuda, NvrtcIsFound) {
  std::string why;
  ASSERT_NE(Nvrtc::get(&why), nullptr) << why;
  EXPECT_TRUE(available(machine::cuda_target_of(90)));
  ASSERT_NE(JitLink::get(Nvrtc::get()->major()), nullptr) << "the linker's package is not installed";
}

// The driver finishes this text.
TEST(CodegenCuda, FillsOfMemoryForEveryGeneration) {
  ASSERT_NE(Nvrtc::get(), nullptr);
  const JitLink* const link = JitLink::get(Nvrtc::get()->major());
  ASSERT_NE(link, nullptr);
  for (const int arch : {75, 80, 90, 100, 120})
    EXPECT_TRUE(link->cubin(std::string(machine::fill_ptx()) + '\0', "vesta_fill", arch)) << arch;
}

TEST(CodegenCuda, PlansForThreeGenerations) {
  for (const int arch : {80, 90, 100}) {
    const Target target = machine::cuda_target_of(arch);
    for (const auto& [rows, columns] : {std::pair(512, 96), {3, 4096}, {2, 30000}, {8, 700}})
      for (const char* dtype : {"f32", "bf16", "f16"})
        expect_code(kernels_of(softmax_text(rows, columns, dtype), target), arch);
  }
}

// Numbers in the CPU's memory are parameters of their own size.
TEST(CodegenCuda, ArgumentsOfEveryType) {
  for (const char* dtype : {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"}) {
    const auto kernels = kernels_of(
        fmt::format("input %0 : f32[700]@D = argument \"x\"\ninput %1 : {}[] = argument \"s\"\n%2 : f32[700]@D = "
                    "aten::mul.Tensor(%0, %1)\noutput %2\n",
                    dtype),
        machine::cuda_target_of(90));
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_NE(kernels[0].find(fmt::format(" {} read value\n", dtype)), std::string::npos) << kernels[0];
    expect_code(kernels, 90);
  }
}

// Rows stay in registers: none spill, and two blocks of 512 threads, or one of 1024, fit a multiprocessor.
TEST(CodegenCuda, ResourcesAreWithinBounds) {
  for (const int arch : {80, 90, 100}) {
    const Target target = machine::cuda_target_of(arch);
    std::vector<Request> requests;
    std::vector<int64_t> threads;
    for (const char* dtype : {"f32", "bf16", "f16", "f64"})
      for (const int columns : {96, 1000, 4096, 8192, 16384, 32000, 32768, 131072})
        for (const char* aligned : {"", " aligned 16"}) {
          std::string text = softmax_text(64, columns, dtype);
          text.replace(text.find("\"x\""), 3, std::string("\"x\"") + aligned);
          for (const std::string& k : kernels_of(text, target)) {
            requests.push_back({k, fmt::format("softmax_{}_{}", dtype, columns)});
            threads.push_back(loops::parse_kernel(k)->threads.block);
          }
        }
    const std::vector<Result> results = compile(requests, target, {});
    for (size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE(fmt::format("sm_{} {}", arch, requests[i].text));
      const auto use = vesta::testing::use_of(code_of(*results[i].object).cubin);
      EXPECT_EQ(use.frame, 0u);
      EXPECT_GT(use.registers, 8u);
      EXPECT_LE(use.registers * threads[i], 64 << 10);
      EXPECT_LE(use.shared, 48u << 10);
    }
  }
}

TEST(CodegenCuda, DecodeStepsStayInRegisters) {
  for (const int arch : {80, 90, 100}) {
    const Target target = machine::cuda_target_of(arch);
    std::vector<Request> requests;
    std::vector<int64_t> threads;
    for (const char* dtype : {"f32", "bf16", "f16"})
      for (const int64_t size : {64, 80, 128})
        for (const int64_t keys : {33, 1024, 4000}) {
          const auto g = on_device("cuda:0", vesta::testing::attention_text({.heads = 8,
                                                                             .shared = 2,
                                                                             .keys = keys,
                                                                             .size = size,
                                                                             .dtype = dtype,
                                                                             .mask = fmt::format("1, 1, 1, {}", keys),
                                                                             .repeated = size == 64}));
          const Options user;
          graph::run_passes(*g, {.options = user, .device = DeviceType::CUDA}, true);
          for (const std::string& k : kernels_of(*g, target)) {
            requests.push_back({k, fmt::format("attention_{}", requests.size())});
            threads.push_back(loops::parse_kernel(k)->threads.block);
          }
        }
    EXPECT_EQ(requests.size(), 54u);
    const auto projections = on_device("cuda:0", vesta::testing::projections_text());
    const Options user;
    graph::run_passes(*projections, {.options = user, .device = DeviceType::CUDA}, true);
    requests.push_back({kernels_of(*projections, target).at(0), "projections"});
    threads.push_back(loops::parse_kernel(requests.back().text)->threads.block);
    const std::vector<Result> results = compile(requests, target, {});
    for (size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE(fmt::format("sm_{} {}", arch, requests[i].text));
      const auto use = vesta::testing::use_of(code_of(*results[i].object).cubin);
      EXPECT_EQ(use.frame, 0u);
      EXPECT_LE(use.registers * threads[i], 64 << 10);
      EXPECT_LE(use.shared, 48u << 10);
    }
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

// Four at once from the generation on that can.
TEST(CodegenCuda, AdditionsOfRows) {
  for (const int arch : {80, 90, 100}) {
    const auto kernels = kernels_of(
        "input %0 : f32[700, 1024]@D = argument \"x\"\ninput %1 : i64[4096]@D = argument \"i\"\ninput %2 : f32[4096, "
        "1024]@D = argument \"y\" aligned 16\n%3 : f32[700, 1024]@D = aten::index_add(%0, 0, %1, %2)\noutput %3\n",
        machine::cuda_target_of(arch));
    expect_code(kernels, arch);
    for (const Result& r : compile({{kernels.at(1), "add"}}, machine::cuda_target_of(arch), {}))
      EXPECT_EQ(code_of(*r.object).ptx.find("red.global.add.v4.f32") != std::string::npos, arch >= 90);
  }
}

TEST(CodegenCuda, Additions) {
  for (const int arch : {80, 90, 100})
    for (const char* dtype : {"f32", "f64", "i32", "i64"})
      expect_code(
          kernels_of(fmt::format("symbol s0 = 40, at least 2\nsource s0 = size 0 of input 1\ninput %0 : {0}[700, "
                                 "96]@D = argument \"x\"\ninput %1 : i64[s0]@D = argument \"i\"\ninput %2 : {0}[s0, "
                                 "96]@D = argument \"y\"\n%3 : {0}[700, 96]@D = aten::index_add(%0, 0, %1, %2)\n"
                                 "output %3\n",
                                 dtype),
                     machine::cuda_target_of(arch)),
          arch);
}

// No generation spills, and as many blocks fit a multiprocessor as keep its memory busy.
TEST(CodegenCuda, Scans) {
  for (const int arch : {80, 90, 100}) {
    const Target target = machine::cuda_target_of(arch);
    std::vector<Request> requests;
    std::vector<int64_t> threads;
    const auto add = [&](const std::string& text) {
      for (const std::string& k : kernels_of(text, target)) {
        EXPECT_NE(k.find(" = scan "), std::string::npos) << k;
        requests.push_back({k, fmt::format("scan_{}", requests.size())});
        threads.push_back(loops::parse_kernel(k)->threads.block);
      }
    };
    for (const char* dtype : {"f32", "bf16", "f64", "i64"})
      for (const auto& [rows, columns] : {std::pair(5000, 96), {64, 8192}, {700, 1001}, {1, 16384}})
        for (const int dim : {0, 1})
          add(
              fmt::format("input %0 : {0}[{1}, {2}]@D = argument \"x\" aligned 16\n%1 : {0}[{1}, {2}]@D = "
                          "aten::cumsum(%0, {3})\n%2 : {0}[{1}, {2}]@D = aten::mul.Tensor(%1, %0)\noutput %2\n",
                          dtype, rows, columns, dim));
    for (const char* dtype : {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"})
      add(
          fmt::format("input %0 : {0}[64, 1000]@D = argument \"x\" aligned 16\n%1 : {0}[64, 1000]@D, %2 : i64[64, "
                      "1000]@D = aten::cummax(%0, 1)\noutput %1\noutput %2\n",
                      dtype));
    ASSERT_EQ(requests.size(), 42u);
    const std::vector<Result> results = compile(requests, target, {});
    for (size_t i = 0; i < results.size(); ++i) {
      SCOPED_TRACE(fmt::format("sm_{} {}", arch, requests[i].text));
      const auto use = vesta::testing::use_of(code_of(*results[i].object).cubin);
      EXPECT_EQ(use.frame, 0u);
      EXPECT_LE(use.registers, 96u) << threads[i];
      EXPECT_LE(use.registers * threads[i], 64 << 10);
      EXPECT_LE(use.shared, 16u << 10);
    }
  }
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
  for (const DType from : types_on_gpus()) {
    std::string head = fmt::format(
        "kernel\nthreads 128 team 1 held 0 each 1\nrange p0 parallel 1000\nbuffer b0 {} read\n", name(from));
    std::string body = fmt::format("stage\n  %0 = load {} b0[p0]\n", name(from));
    int n = 1;
    for (const DType to : types_on_gpus()) {
      head += fmt::format("buffer b{} {} write\n", n, name(to));
      body += fmt::format("  %{0} = cast {1} %0\n  store {1} b{0}[p0] %{0}\n", n, name(to));
      ++n;
    }
    kernels.push_back(head + body);
  }
  // Processors convert to and from float8 from 89 on.
  for (const int arch : {80, 89, 90, 100}) expect_code(kernels, arch);
}

// A GPU that is newer than NVRTC gets PTX, which its driver finishes; one that is older gets ATen.
TEST(CodegenCuda, UnknownGenerations) {
  const Target newer = machine::cuda_target_of(999), older = machine::cuda_target_of(30);
  ASSERT_TRUE(available(newer));
  const auto code = compile({{kernels_of(softmax_text(512, 96), newer).at(0), "test"}}, newer, {});
  EXPECT_FALSE(is_elf(*code[0].object));
  EXPECT_EQ(code_of(*code[0].object).arch, 0);
  EXPECT_NE(code_of(*code[0].object).ptx.find(".entry " + code[0].object->symbol), std::string::npos);
  std::string why;
  EXPECT_FALSE(available(older, &why));
  EXPECT_NE(why.find("sm_30"), std::string::npos) << why;
}

TEST(CodegenCuda, CodeForOneGenerationAndTheLater) {
  const std::string bytes = machine::write_cuda_code(86, true, "cubin", "ptx");
  const machine::CudaCode code = machine::read_cuda_code(bytes, true);
  EXPECT_EQ(code.cubin, "cubin");
  EXPECT_TRUE(code.waits);
  EXPECT_EQ(code.ptx, std::string("ptx") + '\0');
  EXPECT_TRUE(machine::runs_on(code, 86));
  EXPECT_TRUE(machine::runs_on(code, 89));
  EXPECT_FALSE(machine::runs_on(code, 80));
  EXPECT_FALSE(machine::runs_on(code, 90));
  EXPECT_FALSE(machine::runs_on(machine::read_cuda_code(machine::write_cuda_code(0, false, "", "ptx"), false), 90));
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_THROW(machine::read_cuda_code(bytes.substr(0, n), true), vesta::InternalError) << n;
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::string wrong = bytes;
    wrong[n] = static_cast<char>(wrong[n] ^ 0x41);
    try {
      machine::read_cuda_code(wrong, true);
    } catch (const vesta::InternalError&) {
    }
  }
}

TEST(CodegenCuda, CodeServesLaterGenerationsAndNoEarlierOnes) {
  const Target gpu = machine::cuda_target_of(90);
  EXPECT_TRUE(missing_features(gpu, gpu).empty());
  EXPECT_TRUE(missing_features(gpu, machine::cuda_target_of(120)).empty());
  EXPECT_EQ(missing_features(gpu, machine::cuda_target_of(89)), std::vector<std::string>{"sm_90"});
  EXPECT_EQ(missing_features(gpu, host_target()), std::vector<std::string>{"cuda"});
}

// Alone or beside others, first or last: with tables and messages of their own, and functions that several share.
TEST(CodegenCuda, EqualKernelsGiveEqualBytes) {
  const Target target = machine::cuda_target_of(90);
  const auto unary = [](const char* dtype, const char* prim) {
    return fmt::format(
        "kernel\nthreads 128 team 1 held 0 each 1\nrange p0 parallel 1000\nbuffer b0 {0} read\nbuffer b1 {0} "
        "write\nstage\n  %0 = load {0} b0[p0]\n  %1 = {1} {0} %0\n  store {0} b1[p0] %1\n",
        dtype, prim);
  };
  const std::string gather = kernels_of(R"(input %0 : f32[700, 300]@D = parameter "w"
input %1 : i64[5]@D = argument "i"
%2 : f32[5, 300]@D = aten::embedding(%0, %1, -1, false, false)
output %2
)",
                                        target)
                                 .at(0);
  std::string other_gather = gather;
  other_gather.replace(other_gather.find("300"), 3, "301");
  const std::vector<std::string> texts = {unary("f64", "sin"),
                                          unary("f32", "sin"),
                                          unary("f64", "digamma"),
                                          gather,
                                          other_gather,
                                          unary("f64", "cos"),
                                          unary("f32", "lgamma"),
                                          kernels_of(softmax_text(77, 96), target).at(0)};
  std::vector<std::string> alone;
  for (const std::string& text : texts) alone.push_back(compile({{text, "alone"}}, target, {})[0].object->bytes);
  for (const bool backwards : {false, true}) {
    std::vector<Request> requests;
    for (const std::string& text : texts) requests.push_back({text, "together"});
    if (backwards) std::reverse(requests.begin(), requests.end());
    const std::vector<Result> together = compile(requests, target, {});
    for (size_t i = 0; i < texts.size(); ++i)
      EXPECT_TRUE(together[backwards ? texts.size() - 1 - i : i].object->bytes == alone[i]) << texts[i];
  }
}

TEST(CodegenCuda, ModulesInParts) {
  const std::string module = R"(//
// made by hand
//
.version 8.0
.target sm_80 // of Ampere
.address_size 64

	// .globl	first
.extern .func __assertfail
(
	.param .b64 __assertfail_param_0
)
;
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.global .align 1 .b8 $str[2] = {105, 0};
.global .align 1 .b8 $str$1[2] = {106, 0};
.func  (.param .b64 func_retval0) slow(
	.param .b64 slow_param_0
)
{
	mov.u64 %rd1, table;
}
.visible .entry first(
	.param .u64 first_param_0
)
.maxntid 128, 1, 1
{
	.local .align 8 .b8 	__local_depot1[8];
	{ // callseq 0, 0
	call (retval0), slow, (param0);
	} // callseq 0
$L__BB1_2:
	bra $L__BB1_2;
	mov.u64 %rd1, $str$1;
}
.visible .entry first_and_more(
)
{
	mov.u64 %rd1, $str;
	call __assertfail, ();
}
)";
  const std::vector<std::string> names = {"first", "first_and_more"}, parts = split_ptx(module, names);
  ASSERT_EQ(parts.size(), 2u);
  const auto has = [&](size_t part, const char* text) { return parts[part].find(text) != std::string::npos; };
  for (const size_t part : {0, 1}) EXPECT_TRUE(has(part, ".version 8.0\n.target sm_80")) << parts[part];
  EXPECT_TRUE(has(0, "slow(") && has(0, "table[8] = {1, 2") && has(0, "$L__BB_2:") && has(0, "__local_depot[8]"));
  EXPECT_TRUE(has(0, "$str$0[2] = {106, 0};") && !has(0, "{105, 0}") && !has(0, "__assertfail"));
  EXPECT_TRUE(has(1, "$str$0[2] = {105, 0};") && has(1, ".extern .func __assertfail") && !has(1, "table"));
  EXPECT_TRUE(!has(0, "first_and_more") && !has(1, "first("));
  EXPECT_THROW(split_ptx(module, std::vector<std::string>{"slow"}), vesta::InternalError);
}

}  // namespace
}  // namespace vesta::codegen::testing
