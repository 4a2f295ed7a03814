#include "base/target.h"

#include <fmt/format.h>

namespace vesta {

std::string code_text(const Target& t) {
  return fmt::format("{} {} {} vector {}", t.triple, t.cpu, t.features, t.vector_bytes);
}

std::string plan_text(const Target& t) {
  return fmt::format("{}, {} threads, caches {}, {}, {} bytes", to_string(Device{t.device}), t.threads, t.l1_bytes,
                     t.l2_bytes, t.l3_bytes);
}

}  // namespace vesta
