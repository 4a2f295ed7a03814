// Mixes one more number into the hash of a hash table. Values may change between versions, so nothing that is stored
// depends on them: base/digest.h serves that.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vesta {

// Multiplies by the golden ratio (Knuth, TAOCP 6.4) and moves the upper half down, because addresses and small numbers
// differ in few bits.
constexpr size_t mix_hash(size_t hash, size_t value) {
  const uint64_t h = (static_cast<uint64_t>(hash) ^ value) * 0x9E3779B97F4A7C15;
  return static_cast<size_t>(h ^ (h >> 32));
}

}  // namespace vesta
