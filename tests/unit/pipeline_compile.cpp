// Graph texts in, results and reports out.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "artifact/bytes.h"
#include "codegen/codegen.h"
#include "graph/passes/pass.h"
#include "graph/text.h"
#include "older_target.h"
#include "pipeline/pipeline.h"
#include "remove_folder.h"
#include "vesta/error.h"
#include "vesta/passes.h"

namespace {

using namespace vesta;

constexpr std::string_view kProgram = R"(
symbol s0 = 5, at least 2
source s0 = size 0 of input 0
input %0 : f32[s0, 8] = argument "x"
input %1 : f32[8, 3] = parameter "w"
%2 : f32[s0, 3] = aten::mm(%0, %1)
%3 : f32[s0, 3] = aten::silu(%2)
%4 : f32[s0, 3] = aten::exp(%3)
output %4
output integer 2*s0
)";

pipeline::Result compile(std::string_view text, const Options& options = {}) {
  return pipeline::compile(graph::parse(text), options);
}

void expect_right(const runtime::Executable& e, int64_t rows) {
  std::vector<at::Tensor> in = {at::randn({rows, 8}), at::randn({8, 3})};
  ASSERT_TRUE(e.accepts(in, {}));
  std::vector<c10::IValue> out;
  e.run(in, {}, out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(at::allclose(out[0].toTensor(), at::exp(at::silu(at::mm(in[0], in[1])))));
  EXPECT_EQ(out[1].toInt(), 2 * rows);
}

TEST(Pipeline, GraphToResult) {
  const pipeline::Result r = compile(kProgram);
  for (int64_t rows : {5, 2, 33}) expect_right(*r.executable, rows);
  std::vector<at::Tensor> one_row = {at::randn({1, 8}), at::randn({8, 3})};
  std::string why;
  EXPECT_FALSE(r.executable->accepts(one_row, {}, &why));
  EXPECT_NE(why.find(".size(0) >= 2"), std::string::npos) << why;
}

// The stages after the trace read only the target, so plans and code can be made for other machines.
TEST(Pipeline, AnotherTargetHasItsOwnPlanAndCode) {
  Target old = older_target();
  old.threads = 64;
  const pipeline::Result r = pipeline::compile(graph::parse(kProgram), {}, {}, &old);
  EXPECT_EQ(r.report.kernels.size(), compile(kProgram).report.kernels.size());
  expect_right(*r.executable, 5);  // older code runs here, too
}

TEST(Pipeline, ADeviceWithoutAGeneratorRunsCallsIntoAten) {
  Target unknown = host_target();
  unknown.device = DeviceType::Other;
  const pipeline::Result r = pipeline::compile(graph::parse(kProgram), {}, {}, &unknown);
  EXPECT_EQ(r.report.kernels.size(), 0u);
  EXPECT_EQ(r.report.ops_extern, 3);
  expect_right(*r.executable, 5);
}

// An instruction set that no generator knows: what must be a kernel is interpreted, the rest is ATen's.
TEST(Pipeline, AnUnknownInstructionSetIsInterpreted) {
  Target unknown = host_target();
  unknown.triple = "mips64-unknown-linux-gnu";
  const pipeline::Result r = pipeline::compile(graph::parse(kProgram), {}, {}, &unknown);
  EXPECT_EQ(r.report.kernels.size(), 0u);
  expect_right(*r.executable, 5);
}

// Equal graphs give equal bytes, whatever their names, lines and numbers of values.
TEST(Pipeline, LabelsAreNoPartOfTheArtifact) {
  std::string other(kProgram);
  for (const auto& [from, to] :
       {std::pair("\"x\"", "\"left\""), {"\"w\"", "\"weight\""}, {"%4", "%40"}, {"%3", "%17"}}) {
    for (size_t at = other.find(from); at != std::string::npos; at = other.find(from, at + std::strlen(to)))
      other.replace(at, std::strlen(from), to);
  }
  const pipeline::Result a = compile(kProgram), b = compile(other);
  EXPECT_NE(artifact::encode(a.executable->artifact()), artifact::encode(b.executable->artifact()));
  auto without_labels = [](const pipeline::Result& r) {
    artifact::Artifact copy = r.executable->artifact();
    for (artifact::InputDesc& i : copy.inputs) i.name.clear();
    for (artifact::Guard& g : copy.guards) g.text.clear();
    return artifact::encode(copy);
  };
  EXPECT_EQ(without_labels(a), without_labels(b));
  std::string why;
  EXPECT_FALSE(b.executable->accepts(std::vector{at::randn({1, 8}), at::randn({8, 3})}, {}, &why));
  EXPECT_NE(why.find("left.size(0) >= 2"), std::string::npos) << why;
}

// Processes that each have a device of their own share what is stored: indices are bound when an artifact is loaded.
TEST(Pipeline, DeviceIndicesAreNoPartOfTheKey) {
  const auto compiled = [](int first, int second) {
    const std::string text = fmt::format(R"(
input %0 : f32[4]@cuda:{0} = argument "x"
input %1 : f32[4]@cuda:{1} = argument "y"
%2 : f32[4]@cuda:{0} = aten::_to_copy(%1, device=device.cuda:{0})
%3 : f32[4]@cuda:{0} = aten::add.Tensor(%0, %2)
output %3
)",
                                         first, second);
    return pipeline::compile(graph::parse(text), {});
  };
  const pipeline::Result a = compiled(0, 1), b = compiled(3, 2), same = compiled(1, 1);
  EXPECT_EQ(a.report.key->fields, b.report.key->fields);
  EXPECT_NE(a.report.key->fields, same.report.key->fields);
  for (const auto& [result, first, second] : {std::tuple(&a, 0, 1), {&b, 3, 2}, {&same, 1, 1}}) {
    const artifact::Artifact& made = result->executable->artifact();
    EXPECT_EQ(made.inputs[0].type.device.index, first);
    EXPECT_EQ(made.inputs[1].type.device.index, second);
    EXPECT_EQ(made.buffers.back().type.device.index, first);
    // Without kernels too it is a program of the first GPU, which would record it.
    EXPECT_EQ(to_string(made.device), fmt::format("cuda:{}", first));
    const auto graphs = result->executable->graphs();
    ASSERT_TRUE(graphs.has_value());
    EXPECT_EQ(graphs->recorded, 0);
    const std::string text = artifact::print(made);
    EXPECT_EQ(text.find(fmt::format("none, cuda:{},", first)) == std::string::npos, first == second) << text;
  }
}

// Whatever else the process compiles, in whatever order and on how many threads, from the graph or from its text.
TEST(Pipeline, EqualGraphsGiveEqualBytes) {
  constexpr const char* kOther = R"(
input %0 : f32[64, 32] = argument "x"
%1 : f32[64, 32] = aten::exp(%0)
%2 : f32[64] = aten::sum.dim_IntList(%1, [1])
%3 : f32[64, 32] = aten::tanh(%0)
output %2
output %3
)";
  const auto bytes = [](std::string_view program, int threads) {
    Options o;
    o.compile_threads = threads;
    o.cache = false;
    return artifact::encode(pipeline::compile(graph::parse(program), o).executable->artifact());
  };
  const std::string first = bytes(kProgram, 1), other = bytes(kOther, 8);
  EXPECT_NE(first, other);
  EXPECT_EQ(bytes(kOther, 1), other);
  EXPECT_EQ(bytes(kProgram, 8), first);
  const std::string text = graph::print_every_argument(*graph::parse(kProgram));
  EXPECT_EQ(bytes(text, 1), first);
}

TEST(Pipeline, TheReportAccountsForEveryStageAndOperator) {
  const CompileReport r = compile(kProgram).report;
  EXPECT_EQ(r.ops_traced, 3);
  EXPECT_GE(r.ops_extern, 1);
  for (const ExternReason& e : r.externs) EXPECT_FALSE(e.reason.empty()) << e.op;
  double sum = 0;
  std::vector<std::string> names;
  for (const StageTime& s : r.stages) {
    names.push_back(s.name);
    sum += s.ms;
  }
  EXPECT_LE(sum, r.total_ms);
  for (const char* stage : {"trace", "plan", "codegen", "assemble"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), stage), 1) << stage;
  }
  EXPECT_EQ(passes().size(), 1 + graph::pass_table().size());
  EXPECT_EQ(std::count(names.begin(), names.end(), "pass:" + passes()[0]), 1);  // layers that are alike
  for (const graph::PassRow& row : graph::pass_table()) {
    const auto ran = std::count(names.begin(), names.end(), "pass:" + std::string(row.name));
    EXPECT_EQ(ran > 0, row.device.value_or(DeviceType::CPU) == DeviceType::CPU) << row.name;
  }
}

TEST(Pipeline, EqualKernelsAreCompiledOnce) {
  std::string text = "input %0 : f32[64, 64] = argument \"x\"\n";
  for (int layer = 0; layer < 4; ++layer) {
    text += fmt::format("%{} : f32[64, 64] = aten::mm(%{}, %{})\n", 2 * layer + 1, 2 * layer, 2 * layer);
    text += fmt::format("%{} : f32[64, 64] = aten::tanh(%{})\n", 2 * layer + 2, 2 * layer + 1);
  }
  const CompileReport r = compile(text + "output %8\n").report;
  if (r.kernels.empty()) GTEST_SKIP() << "no code generator in this build";
  EXPECT_EQ(r.kernels.size(), 4u);
  EXPECT_EQ(r.distinct_kernels, 1);
}

TEST(Pipeline, PassesCanBeLeftOutAndBisected) {
  Options none;
  none.skip_passes = passes();
  expect_right(*compile(kProgram, none).executable, 7);
  for (int64_t limit : {0, 1, 2}) {
    Options some;
    some.rewrite_limit = limit;
    expect_right(*compile(kProgram, some).executable, 7);
  }
}

TEST(Pipeline, OneDumpFolderForEachCompile) {
  const auto base = std::filesystem::temp_directory_path() / fmt::format("vesta_dump_{}", std::random_device{}());
  Options options;
  options.dump_dir = base.string();
  compile(kProgram, options);
  compile(kProgram, options);
  int folders = 0;
  for (const auto& folder : std::filesystem::directory_iterator(base)) {
    ++folders;
    std::string names;
    for (const auto& file : std::filesystem::directory_iterator(folder)) names += file.path().filename().string() + " ";
    std::vector<const char*> parts = {"graph_traced", "plan", "artifact"};
    if (codegen::available(host_target())) parts.insert(parts.end(), {".dag", ".kernel"});
    for (const char* part : parts) EXPECT_NE(names.find(part), std::string::npos) << part << " is not among " << names;
    std::ifstream traced(folder.path() / "00_graph_traced.txt");
    const std::string text((std::istreambuf_iterator<char>(traced)), {});
    EXPECT_EQ(graph::print(*graph::parse(text)), text);
  }
  EXPECT_EQ(folders, 2);
  vesta::testing::remove_folder(base);
}

TEST(Pipeline, ASizeThatNoInputShowsIsOurBug) {
  auto graph = graph::parse(kProgram);
  graph->symbols.clear();
  EXPECT_THROW(pipeline::compile(std::move(graph), {}), InternalError);
}

}  // namespace
