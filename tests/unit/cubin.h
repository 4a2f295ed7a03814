// What a kernel takes of a multiprocessor, read from its cubin (an ELF file; the section .nv.info as `cuobjdump
// --dump-resource-usage` reads it).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace vesta::testing {

struct CubinUse {
  uint32_t registers = 0;  // of a thread
  uint32_t frame = 0;      // bytes of local memory: what did not fit into registers
  uint64_t shared = 0;     // bytes of a block
};

// Properties of a cubin with one kernel.
inline CubinUse use_of(std::string_view cubin) {
  const auto at = [&]<class T>(uint64_t offset, T value) {
    std::memcpy(&value, cubin.data() + offset, sizeof value);
    return value;
  };
  const auto sections = at(0x28, uint64_t{}), size = uint64_t{at(0x3A, uint16_t{})};
  const auto count = at(0x3C, uint16_t{}), names_at = at(0x3E, uint16_t{});
  const auto names = at(sections + names_at * size + 0x18, uint64_t{});
  CubinUse use;
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t header = sections + i * size;
    const std::string_view name = cubin.data() + names + at(header, uint32_t{});
    uint64_t p = at(header + 0x18, uint64_t{});
    const uint64_t bytes = at(header + 0x20, uint64_t{}), end = p + bytes;
    // Shared memory of the kernel itself: 1 KiB of it is the system's from sm_90 on.
    if (name.starts_with(".nv.shared.") && !name.starts_with(".nv.shared.reserved")) use.shared = bytes;
    while (name == ".nv.info" && p + 4 <= end) {
      constexpr uint8_t kSized = 4, kFrame = 0x11, kRegisters = 0x2f;
      const auto format = at(p, uint8_t{}), attribute = at(p + 1, uint8_t{});
      if (format == kSized && attribute == kFrame) use.frame = at(p + 8, uint32_t{});
      if (format == kSized && attribute == kRegisters) use.registers = at(p + 8, uint32_t{});
      p += 4 + (format == kSized ? at(p + 2, uint16_t{}) : 0);
    }
  }
  return use;
}

}  // namespace vesta::testing
