// Keys of stored artifacts: for each field, changed alone, exactly that field is named.
#include "pipeline/why_miss.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "artifact/bytes.h"
#include "pipeline/key.h"
#include "remove_folder.h"
#include "store/store.h"

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

// The inputs of a compile.
struct Compiled {
  std::string graph = "input %0 : f32[4]\noutput %0\n";
  Traced traced;
  Options options;
  Target target = host_target();
  artifact::Key key() const { return key_of(graph, traced, options, target); }
};

TEST(WhyMiss, WhatACompileReadsIsInOneField) {
  const std::vector<std::pair<std::string, std::function<void(Compiled&)>>> changes = {
      {"graph", [](Compiled& c) { c.graph = "input %0 : f32[5]\noutput %0\n"; }},
      {"facts", [](Compiled& c) { c.traced.facts.same = {{0, 1}}; }},
      {"facts", [](Compiled& c) { c.traced.facts.offsets = {{0, 4}}; }},
      {"facts", [](Compiled& c) { c.traced.facts.conj_neg = {{0, {true, false}}}; }},
      {"options", [](Compiled& c) { c.traced.inference = false; }},
      {"options", [](Compiled& c) { c.traced.deterministic = true; }},
      {"options", [](Compiled& c) { c.options.packed_weights = 7; }},
      {"options", [](Compiled& c) { c.options.numerics = "eager"; }},
      {"options", [](Compiled& c) { c.options.skip_passes = {"views"}; }},
      {"options", [](Compiled& c) { c.options.rewrite_limit = 3; }},
      {"target", [](Compiled& c) { c.target.threads += 1; }},
      {"target", [](Compiled& c) { c.target.l1_bytes += 1; }},
      {"target", [](Compiled& c) { c.target.l2_bytes += 1; }},
      {"target", [](Compiled& c) { c.target.l3_bytes += 1; }},
  };
  const artifact::Key before = Compiled().key();
  std::set<std::string> entries = {name_of(before)};
  for (const auto& [field, change] : changes) {
    Compiled other;
    change(other);
    const auto found = differences(before, other.key());
    ASSERT_EQ(found.size(), 1U) << field;
    EXPECT_EQ(found[0].field, field);
    EXPECT_TRUE(entries.insert(name_of(other.key())).second) << field << " is another entry";
  }
#if VESTA_WITH_LLVM
  for (const auto& change : std::vector<std::function<void(Target&)>>{[](Target& t) { t.cpu = "x86-64-v2"; },
                                                                      [](Target& t) { t.features += ",-avx2"; },
                                                                      [](Target& t) { t.vector_bytes = 8; }}) {
    Compiled other;
    change(other.target);
    const auto found = differences(before, other.key());
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].field, "generator");
  }
#endif
}

// As processes with another torch, another Vesta or another code generator would: each has its own entry.
TEST(WhyMiss, BuildsThatShareAFolder) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("vesta_builds_" + std::to_string(getpid()));
  {
    store::Store store(folder);
    const artifact::Key mine = Compiled().key();
    std::vector<artifact::Key> keys = {mine};
    for (const auto& [field, value] : {std::pair<std::string, std::string>{"torch", "2.11.0 0123"},
                                       {"compiler", "format 1, sources 0"},
                                       {"generator", "llvm 18"}}) {
      keys.push_back(mine);
      for (auto& [name, text] : keys.back())
        if (name == field) text = value;
    }
    for (const artifact::Key& key : keys) {
      EXPECT_EQ(store.find(name_of(key)), std::nullopt);
      artifact::Artifact a;
      a.about.key = key;
      store.put(name_of(key), artifact::encode(a));
      ASSERT_TRUE(store.flush(std::chrono::seconds(10)));
    }
    for (const artifact::Key& key : keys) EXPECT_EQ(artifact::decode(store.find(name_of(key)).value()).about.key, key);
    for (size_t i = 1; i < keys.size(); ++i) {
      const auto found = differences(mine, keys[i]);
      ASSERT_EQ(found.size(), 1U);
    }
  }
  vesta::testing::remove_folder(folder);
}

}  // namespace
}  // namespace vesta::pipeline
