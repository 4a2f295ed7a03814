#include "base/digest.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <memory>

namespace vesta {

std::pair<uint64_t, uint64_t> digest_pair(std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const std::string_view part : parts) {
    const auto length = static_cast<uint64_t>(part.size());
    XXH3_128bits_update(state.get(), &length, sizeof length);
    XXH3_128bits_update(state.get(), part.data(), part.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return {hash.high64, hash.low64};
}

std::string digest(std::initializer_list<std::string_view> parts) {
  const auto [high, low] = digest_pair(parts);
  return fmt::format("{:016x}{:016x}", high, low);
}

uint64_t digest_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace vesta
