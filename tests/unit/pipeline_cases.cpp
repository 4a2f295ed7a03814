// Compiles that are kept as cases: their text, what is kept of which, and what repeats them.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>

#include "base/fault.h"
#include "pipeline/case_keeper.h"
#include "pipeline/inspection.h"

namespace {

using namespace vesta;
using pipeline::Case;
using pipeline::CaseKeeper;
using pipeline::Outcome;

constexpr const char* kProgram = R"(
symbol s0 = 8, at least 2
source s0 = integer 0
input %0 : f32[4, 8] = argument "x \"1\""
input %1 : f32[8, 4]{1, 8}@cuda:1 = parameter "w" aligned 16
%2 : f32[4, 8] = aten::exp(%0) @ "model.py:3"
output %2
)";

constexpr const char* kSum = R"(
input %0 : f32[4, 8] = argument "x"
%1 : f32[4, 8] = aten::exp(%0)
%2 : f32[4, 8] = aten::add.Tensor(%1, %0)
%3 : f32[8] = aten::sum.dim_IntList(%2, [0])
output %3
)";

const Options kOptions{.cache = false};

pipeline::Result compile() { return pipeline::compile(graph::parse(kSum), kOptions); }

std::vector<Case> cases(const CaseKeeper& keeper) {
  return pipeline::parse_cases(pipeline::to_text({}, keeper.cases())).cases;
}

TEST(Case, IsReadBackFromItsText) {
  pipeline::Traced traced;
  traced.inference = false;
  traced.deterministic = true;
  traced.facts.same = {{0, 1}};
  traced.facts.offsets = {{0, 5}};
  traced.facts.conj_neg = {{1, {true, false}}};
  Options options;
  options.numerics = "eager";
  options.skip_passes = {"views", "linear"};
  options.rewrite_limit = 7;
  options.kernels = false;
  Case c = pipeline::make_case(*graph::parse(kProgram), options, traced, host_target());
  c.outcome = Outcome::Failed;
  c.error_kind = "InternalError";
  c.error = "line 1\nline \"2\"";
  c.stages = {{"trace", 1.5}, {"plan", 2}};
  const std::string text = pipeline::to_text({{"vesta", "1"}}, {pipeline::to_text(c)});
  const pipeline::CaseFile file = pipeline::parse_cases(text);
  EXPECT_EQ(file.versions, (pipeline::Versions{{"vesta", "1"}}));
  ASSERT_EQ(file.cases.size(), 1u);
  EXPECT_EQ(pipeline::to_text({{"vesta", "1"}}, {pipeline::to_text(file.cases[0])}), text);

  const Case& back = file.cases[0];
  EXPECT_EQ(graph::print(*pipeline::graph_of(back)), graph::print(*graph::parse(kProgram)));
  EXPECT_EQ(back.options.skip_passes, options.skip_passes);
  EXPECT_EQ(back.options.rewrite_limit, 7);
  EXPECT_FALSE(back.options.kernels);
  EXPECT_EQ(back.error, c.error);
  EXPECT_EQ(back.integers, (std::vector<int64_t>{8}));
  EXPECT_EQ(back.inputs[1].strides, (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(back.inputs[1].alignment, 16);
  EXPECT_EQ(to_string(back.inputs[1].device), "cuda:1");
  const pipeline::Traced facts = pipeline::traced_of(back);
  EXPECT_FALSE(facts.inference);
  EXPECT_TRUE(facts.deterministic);
  EXPECT_EQ(facts.facts.same, traced.facts.same);
  EXPECT_EQ(facts.facts.offsets, traced.facts.offsets);
  EXPECT_EQ(facts.facts.conj_neg, traced.facts.conj_neg);
}

TEST(Case, OtherTextsAreErrorsOfTheUser) {
  for (const char* text : {"", "[]", "{\"format\": \"something\"}", "{\"format\": \"vesta case 1\"}",
                           "{\"format\": \"vesta case 1\", \"versions\": {}, \"compiles\": [{}]}"}) {
    EXPECT_THROW(pipeline::parse_cases(text), UserError) << text;
  }
  Case c = pipeline::make_case(*graph::parse(kSum), {}, {}, host_target());
  c.inputs[0].same_as = 0;
  EXPECT_THROW(pipeline::traced_of(c), UserError);
  c.inputs.clear();
  EXPECT_THROW(pipeline::graph_of(c), UserError);
}

TEST(CaseKeeper, KeepsCompilesThatBeginBeforeItStops) {
  compile();
  const auto keeper = CaseKeeper::start({}, {}, {});
  compile();
  fault::inject("codegen", [] { throw Unsupported("not today"); });
  EXPECT_THROW(compile(), Unsupported);
  fault::inject("codegen", nullptr);
  keeper->stop();
  compile();
  const std::vector<Case> found = cases(*keeper);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].outcome, Outcome::Compiled);
  EXPECT_GT(found[0].total_ms, 0);
  EXPECT_EQ(found[0].stages.back().name, "load");
  EXPECT_EQ(found[1].outcome, Outcome::Failed);
  EXPECT_EQ(found[1].error_kind + found[1].error, "Unsupportednot today");
  EXPECT_FALSE(CaseKeeper::any());
}

TEST(CaseKeeper, LeavesOutWhatItsConditionDoesNotHold) {
  const auto failed = CaseKeeper::start({}, {}, {.only_failed = true});
  const auto slow = CaseKeeper::start({}, {}, {.slower_than_ms = 1e6});
  const auto both = CaseKeeper::start({}, {}, {.slower_than_ms = 0});
  compile();
  fault::inject("plan", [] { throw std::bad_alloc(); });
  EXPECT_THROW(compile(), std::bad_alloc);
  fault::inject("plan", nullptr);
  for (const auto& k : {failed, slow, both}) k->stop();
  EXPECT_EQ(cases(*failed).size(), 1u);
  ASSERT_EQ(cases(*slow).size(), 1u);
  EXPECT_EQ(cases(*slow)[0].error_kind, "MemoryError");
  EXPECT_EQ(cases(*both).size(), 2u);
}

TEST(CaseKeeper, TheFileHasACompileThatHasNotEnded) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("vesta-case-" + std::to_string(getpid()))).string();
  const auto keeper = CaseKeeper::start(path, {{"vesta", "1"}}, {.only_failed = true});
  const auto in_file = [&] {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return pipeline::parse_cases(text.str()).cases;
  };
  size_t seen = 0;
  Outcome outcome = Outcome::Compiled;
  fault::inject("plan", [&] {
    seen = in_file().size();
    outcome = in_file().at(0).outcome;
  });
  compile();
  fault::inject("plan", nullptr);
  EXPECT_EQ(seen, 1u);
  EXPECT_EQ(outcome, Outcome::Unfinished);
  EXPECT_TRUE(in_file().empty());
  keeper->stop();
  std::filesystem::remove(path);
  EXPECT_THROW(CaseKeeper::start("/no/such/folder/case", {}, {}), UserError);
}

TEST(Inspection, HasEachKernelAsAGraph) {
  const pipeline::Inspection i = pipeline::inspect(graph::parse(kSum), kOptions, {});
  if (i.kernels.empty()) GTEST_SKIP() << "no code generator in this build";
  EXPECT_NE(i.plan.find("kernel exp add.Tensor sum.dim_IntList"), std::string::npos) << i.plan;
  ASSERT_EQ(i.kernels.size(), 1u);
  EXPECT_EQ(i.kernels[0].name, "exp_add_sum");
  EXPECT_EQ(i.kernels[0].inputs, (std::vector<uint32_t>{0}));
  const pipeline::Inspection again = pipeline::inspect(graph::parse(i.kernels[0].graph), kOptions, {});
  ASSERT_EQ(again.kernels.size(), 1u);
  EXPECT_EQ(again.kernels[0].name, "exp_add_sum");
  EXPECT_EQ(pipeline::inspect(graph::parse(kSum), kOptions, {}).plan, i.plan);
}

TEST(Fault, SpoilsAPassOrAKernel) {
  const auto run = [](const char* stage) {
    fault::spoil(stage, true);
    const at::Tensor x = at::ones({4, 8});
    std::vector<c10::IValue> out;
    compile().executable->run(std::vector<at::Tensor>{x}, {}, out);
    fault::spoil(stage, false);
    return out.at(0).toTensor().sum().item<double>();
  };
  const double right = 32 * (std::exp(1.0) + 1);
  EXPECT_NEAR(run("pass:none"), right, 1e-3);
  EXPECT_NEAR(run("pass:views"), -right, 1e-3);
  if (compile().report.kernels.empty()) GTEST_SKIP() << "no code generator in this build";
  EXPECT_GT(std::abs(run("kernel:exp_add_sum") - right), 1);
}

}  // namespace
