#include "base/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/split.h"

namespace vesta {
namespace {

std::set<std::string> features_of(const Target& t) {
  std::set<std::string> out;
  for (const std::string_view one : split(t.features, ','))
    if (one.starts_with('+')) out.emplace(one.substr(1));
  return out;
}

// The 90 in "sm_90".
int generation(const Target& gpu) {
  int number = 0;
  std::from_chars(gpu.cpu.data() + std::min<size_t>(3, gpu.cpu.size()), gpu.cpu.data() + gpu.cpu.size(), number);
  return number;
}

}  // namespace

bool has_feature(const Target& target, std::string_view name) {
  const auto names = split(target.features, ',');
  return std::ranges::any_of(names,
                             [&](std::string_view one) { return one.starts_with('+') && one.substr(1) == name; });
}

std::vector<std::string> missing_features(const Target& code_for, const Target& machine) {
  if (code_for.device != machine.device) return {to_string(Device{code_for.device})};
  if (code_for.triple != machine.triple) return {code_for.triple};
  // Code for a GPU runs on every later generation (machine/cuda/code.h).
  if (code_for.device == DeviceType::CUDA && generation(code_for) > generation(machine)) return {code_for.cpu};
  std::vector<std::string> missing;
  const std::set<std::string> have = features_of(machine);
  for (const std::string& f : features_of(code_for))
    if (!have.contains(f)) missing.push_back(f);
  return missing;
}

std::string code_text(const Target& t) {
  return fmt::format("{} {} {} vector {}", t.triple, t.cpu, t.features, t.vector_bytes);
}

std::string plan_text(const Target& t) {
  return fmt::format("{}, {} threads, caches {}, {}, {} bytes, memory {} bytes/ns, cache {} bytes/ns",
                     to_string(Device{t.device}), t.threads, t.l1_bytes, t.l2_bytes, t.l3_bytes, t.memory_bytes_per_ns,
                     t.cache_bytes_per_ns);
}

}  // namespace vesta
