#include "base/target.h"

#include <fmt/format.h>

#include <set>
#include <sstream>

namespace vesta {
namespace {

std::set<std::string> features_of(const Target& t) {
  std::set<std::string> out;
  std::stringstream list(t.features);
  for (std::string one; std::getline(list, one, ',');)
    if (one.starts_with('+')) out.insert(one.substr(1));
  return out;
}

}  // namespace

std::vector<std::string> missing_features(const Target& code_for, const Target& machine) {
  if (code_for.device != machine.device) return {to_string(Device{code_for.device})};
  if (code_for.triple != machine.triple) return {code_for.triple};
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
