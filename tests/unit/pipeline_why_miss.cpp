// Keys of stored artifacts: for each field, changed alone, exactly that field is named.
#include "pipeline/why_miss.h"

#include <gtest/gtest.h>

namespace vesta::pipeline {
namespace {

artifact::Key key() {
  return {
      {"graph", "input %0 : f32[4] = argument \"<input 0>\"\n%1 : f32[4] = aten::exp(%0) @ \"<line 1>\"\noutput %1\n"},
      {"facts", ""},
      {"options", "inference, packed_weights -1, numerics fast"},
      {"target", "cpu, 2 threads, caches 1, 2, 3 bytes"},
      {"generator", "llvm 19; x86 znver4 +a,+b vector 64; sources 1"},
      {"compiler", "format 1, sources 5"},
      {"torch", "2.13.0 7"}};
}

TEST(WhyMiss, ExactlyTheFieldThatChangedIsNamed) {
  EXPECT_TRUE(differences(key(), key()).empty());
  for (size_t i = 0; i < key().size(); ++i) {
    artifact::Key other = key();
    other[i].second += ", and more";
    const auto found = differences(key(), other);
    ASSERT_EQ(found.size(), 1U) << other[i].first;
    EXPECT_EQ(found[0].field, other[i].first);
    EXPECT_NE(found[0].now.find("and more"), std::string::npos) << found[0].now;
  }
}

TEST(WhyMiss, OnlyThePartsThatDiffer) {
  artifact::Key other = key();
  other[2].second = "inference, packed_weights 0, numerics fast";
  const auto found = differences(key(), other);
  EXPECT_EQ(found.at(0).was, "packed_weights -1");
  EXPECT_EQ(found.at(0).now, "packed_weights 0");
}

TEST(WhyMiss, OfAGraphTheFirstLineAndWhoAskedForIt) {
  artifact::Key other = key();
  const size_t at = other[0].second.find("exp");
  other[0].second.replace(at, 3, "sin");
  const auto found = differences(key(), other, {"model.py:1", "model.py:7"});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NE(found[0].was.find("aten::exp"), std::string::npos);
  EXPECT_NE(found[0].now.find("aten::sin"), std::string::npos);
  EXPECT_EQ(found[0].line, "model.py:7");
  other = key();
  other[0].second.resize(other[0].second.find("output"));
  EXPECT_EQ(differences(key(), other).at(0).now, "");
}

}  // namespace
}  // namespace vesta::pipeline
