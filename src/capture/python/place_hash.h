// A hash of tuples of enumerators, numbers and addresses, for tables that a trace reads at every instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "base/hash_mix.h"

namespace vesta::capture {

struct PlaceHash {
  template <class... T>
  size_t operator()(const std::tuple<T...>& key) const {
    size_t h = 0;
    std::apply([&](const T&... part) { ((h = mix_hash(h, bits(part))), ...); }, key);
    return h;
  }

 private:
  template <class T>
  static uint64_t bits(const T& x) {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<uintptr_t>(x);
    else
      return static_cast<uint64_t>(x);
  }
};

}  // namespace vesta::capture
