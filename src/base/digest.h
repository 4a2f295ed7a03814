// Names for content: equal bytes have equal digests in every process and on every machine (XXH3 of xxHash, 128 bits). A
// digest is no protection against collisions made on purpose.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace vesta {

// The digest of all parts as 32 hexadecimal digits. Lengths count: ("ab", "c") and ("a", "bc") differ.
std::string digest(std::initializer_list<std::string_view> parts);
// The same digest as two numbers, the high half first.
std::pair<uint64_t, uint64_t> digest_pair(std::initializer_list<std::string_view> parts);
// A 64-bit digest of one text.
uint64_t digest_of(std::string_view bytes);

}  // namespace vesta
