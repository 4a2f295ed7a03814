// What vesta::stats() says of compiles, and its texts.
#include "vesta/stats.h"

#include <gtest/gtest.h>

#include "base/totals.h"
#include "codegen/codegen.h"
#include "graph/text.h"
#include "pipeline/pipeline.h"
#include "pipeline_program.h"

namespace vesta {
namespace {

using testing::kProgram;

TEST(Stats, CountStagesKernelsAndCode) {
  reset_stats();
  const bool generates = codegen::available(host_target());
  const int64_t before = stats().code_bytes;
  {
    const pipeline::Result first = pipeline::compile(graph::parse(kProgram), {.cache = false});
    const pipeline::Result second = pipeline::compile(graph::parse(kProgram), {.cache = false});
    const Stats s = stats();
    EXPECT_EQ(s.kernels_compiled, generates ? 1 : 0);
    EXPECT_EQ(s.kernels_in_process, generates ? 1 : 0);
    EXPECT_EQ(s.artifacts_found + s.artifacts_missed, 0);  // there is no cache on disk
    for (const char* stage : {"passes", "plan", "codegen", "assemble", "load"}) EXPECT_EQ(s.stages.at(stage).runs, 2);
    double reported = 0;
    for (const auto* report : {&first.report, &second.report})
      for (const StageTime& t : report->stages)
        if (t.name == "plan") reported += t.ms;
    EXPECT_NEAR(s.stages.at("plan").ms, reported, 0.2);  // both are measured by one clock
    EXPECT_EQ(s.code_bytes > before, generates);
  }
  EXPECT_EQ(stats().code_bytes, before);
  reset_stats();
  EXPECT_TRUE(stats().stages.empty());
  EXPECT_EQ(stats().compile_ms(), 0);
}

Stats sample() {
  Stats s;
  s.stages = {{"load", {1, 0.5}}, {"plan", {2, 1500}}, {"unknown", {1, 1}}};
  s.hits = 3;
  s.misses = 1;
  s.fallbacks = {{"it says \"no\"\nand \\ more", 4}};
  s.code_bytes = 3 << 20;
  s.peak_bytes = {{"code_bytes", 5 << 20}};
  s.owner_bytes = {{"thread 7 python", 64}};
  return s;
}

TEST(Stats, TableHasStagesInOrderAndRates) {
  const std::string text = to_string(sample());
  EXPECT_LT(text.find("plan"), text.find("load"));
  EXPECT_LT(text.find("load"), text.find("unknown"));
  EXPECT_NE(text.find("75.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("3.0 MiB  at most 5.0 MiB"), std::string::npos);
  EXPECT_NE(text.find("    thread 7 python"), std::string::npos);
  EXPECT_NE(text.find("1501.5 ms"), std::string::npos);
}

TEST(Stats, PrometheusHasHelpTypeAndEscapedLabels) {
  const std::string text = prometheus(sample());
  EXPECT_NE(text.find("# HELP vesta_guard_hits_total "), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE vesta_guard_hits_total counter\nvesta_guard_hits_total 3\n"), std::string::npos);
  EXPECT_NE(text.find("vesta_compile_seconds_total{stage=\"plan\"} 1.5\n"), std::string::npos);
  EXPECT_NE(text.find("{reason=\"it says \\\"no\\\"\\nand \\\\ more\"} 4\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE vesta_code_bytes gauge\nvesta_code_bytes 3145728\n"), std::string::npos);
  EXPECT_NE(text.find("vesta_peak_bytes{purpose=\"machine code\"} 5242880\n"), std::string::npos);
  EXPECT_NE(text.find("vesta_owner_bytes{owner=\"thread 7 python\"} 64\n"), std::string::npos);
}

}  // namespace
}  // namespace vesta
