// A name for content: equal bytes have equal digests, in every process and on every machine. XXH3 with 128 bits
// (xxHash); not for protection against somebody who makes collisions on purpose.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace vesta {

// Of the parts, each with its length: ("ab", "c") and ("a", "bc") differ. 32 hexadecimal digits.
std::string digest(std::initializer_list<std::string_view> parts);
// The same as two numbers, the high half first.
std::pair<uint64_t, uint64_t> digest_pair(std::initializer_list<std::string_view> parts);
// Of one run of bytes, with 64 bits.
uint64_t digest_of(std::string_view bytes);

}  // namespace vesta
