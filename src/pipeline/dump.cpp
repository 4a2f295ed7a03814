#include "pipeline/dump.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/log.h"

namespace vesta::pipeline {

Dump::Dump(const Options& options) {
  std::string base = options.dump_dir;
  if (base.empty()) {
    const char* from_environment = std::getenv("VESTA_DUMP");
    if (from_environment) base = from_environment;
  }
  if (base.empty()) return;
  static std::atomic<int> compiles{0};
  const std::string folder = fmt::format("{}/{}_{:03}", base, getpid(), compiles.fetch_add(1));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    log::warn_once(fmt::format("cannot dump to {}: {}", folder, error.message()));
    return;
  }
  folder_ = folder;
}

void Dump::write(std::string_view name, std::string_view text) {
  if (!active()) return;
  std::ofstream file(fmt::format("{}/{}", folder_, name));
  file << text;
}

void Dump::write_numbered(std::string_view name, std::string_view text) {
  if (active()) write(fmt::format("{:02}_{}", next_++, name), text);
}

}  // namespace vesta::pipeline
