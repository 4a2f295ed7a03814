#pragma once

#include <string_view>

#include "vesta_opcodes.h"

namespace vesta::capture {

// The number of an opcode by its name; -1 if this Python has no such instruction.
constexpr int opcode_of(std::string_view name) {
  for (int i = 0; i < 256; ++i)
    if (opcode_table[i].name != nullptr && opcode_table[i].name == name) return i;
  return -1;
}

}  // namespace vesta::capture
