// How a hash table's hash takes in one more number. Not for what is stored: see base/digest.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vesta {

// Multiplies by the golden ratio (Knuth, TAOCP 6.4) and brings the upper half down: addresses and small numbers differ
// in few of their bits.
constexpr size_t mix_hash(size_t hash, size_t value) {
  const uint64_t h = (static_cast<uint64_t>(hash) ^ value) * 0x9E3779B97F4A7C15;
  return static_cast<size_t>(h ^ (h >> 32));
}

}  // namespace vesta
