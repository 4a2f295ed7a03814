// A name for content: equal bytes have equal digests, in every process and on every machine. XXH3 with 128 bits
// (xxHash); not for protection against somebody who makes collisions on purpose.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace vesta {

// Of the parts, each with its length: ("ab", "c") and ("a", "bc") differ. 32 hexadecimal digits.
std::string digest(std::initializer_list<std::string_view> parts);

}  // namespace vesta
