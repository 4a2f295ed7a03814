// A hash of tuples of enumerators, numbers and addresses, for the tables that a trace asks at every instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace vesta::capture {

struct PlaceHash {
  template <class... T>
  size_t operator()(const std::tuple<T...>& key) const {
    uint64_t h = 0;
    std::apply([&](const T&... part) { ((h = mix(h ^ bits(part))), ...); }, key);
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
  // The finalizer of a multiplicative hash (Knuth, TAOCP 6.4): addresses differ in few of their bits.
  static uint64_t mix(uint64_t h) {
    h *= 0x9E3779B97F4A7C15;
    return h ^ (h >> 32);
  }
};

}  // namespace vesta::capture
