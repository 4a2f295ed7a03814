// Amounts of memory as text.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace vesta {

// "1.5 MiB"
inline std::string byte_text(int64_t n) {
  constexpr double kKiB = 1024, kMiB = kKiB * kKiB, kGiB = kMiB * kKiB;
  const auto x = static_cast<double>(n);
  if (x >= kGiB) return fmt::format("{:.1f} GiB", x / kGiB);
  if (x >= kMiB) return fmt::format("{:.1f} MiB", x / kMiB);
  return x >= kKiB ? fmt::format("{:.1f} KiB", x / kKiB) : fmt::format("{} B", n);
}

}  // namespace vesta
