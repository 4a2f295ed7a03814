// This machine as a target, and the texts by which targets are told apart.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/target.h"

namespace vesta {
namespace {

TEST(HostTarget, CachesAreWhatTheSystemSays) {
  const Target& t = host_target();
  EXPECT_LE(t.l1_bytes, t.l2_bytes);
  EXPECT_LE(t.l2_bytes, t.l3_bytes);
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    std::ifstream level_file(folder + "level"), type_file(folder + "type"), size_file(folder + "size");
    int level = 0;
    int64_t kib = 0;
    std::string type;
    if (!(level_file >> level) || !(type_file >> type) || !(size_file >> kib) || type == "Instruction") continue;
    EXPECT_EQ(kib << 10, level == 1 ? t.l1_bytes : level == 2 ? t.l2_bytes : t.l3_bytes) << folder;
  }
}

TEST(PlanText, NamesEveryFieldThatPlansRead) {
  const Target& plain = host_target();
  const auto changed = [&](auto&& change) {
    Target t = plain;
    change(t);
    return plan_text(t) != plan_text(plain);
  };
  EXPECT_TRUE(changed([](Target& t) { t.device = DeviceType::CUDA; }));
  EXPECT_TRUE(changed([](Target& t) { ++t.threads; }));
  EXPECT_TRUE(changed([](Target& t) { ++t.l1_bytes; }));
  EXPECT_TRUE(changed([](Target& t) { ++t.l2_bytes; }));
  EXPECT_TRUE(changed([](Target& t) { ++t.l3_bytes; }));
  EXPECT_TRUE(changed([](Target& t) { t.memory_bytes_per_ns *= 2; }));
  EXPECT_TRUE(changed([](Target& t) { t.cache_bytes_per_ns *= 2; }));
}

}  // namespace
}  // namespace vesta
