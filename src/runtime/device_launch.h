// The arguments of a kernel launch on a GPU, as machine::DeviceKernel takes them.
#pragma once

#include <c10/util/SmallVector.h>

#include <bit>
#include <cstring>

#include "artifact/artifact.h"
#include "base/check.h"
#include "machine/load.h"
#include "runtime/resolve.h"

namespace vesta::runtime {

inline machine::LaunchShape shape_of(const artifact::Grid& grid, int64_t items) {
  const int64_t blocks = (items + grid.items - 1) / grid.items;
  VESTA_CHECK(blocks <= INT32_MAX, "{} blocks of threads are more than a launch has", blocks);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(grid.block), static_cast<unsigned>(grid.shared)};
}

// An address for kernels that are captured and not run. Their nodes get another address before they run.
inline void* const kElsewhere = reinterpret_cast<void*>(kDeviceAlignment);

// The argument of a GPU kernel for a buffer that begins at `address`: the address, or the bits of an element in the
// CPU's memory.
inline void* argument_for(const artifact::Buffer& buffer, void* address) {
  if (buffer.type.device.type != DeviceType::CPU || address == kElsewhere) return address;
  static_assert(std::endian::native == std::endian::little);
  void* bits = nullptr;
  std::memcpy(static_cast<void*>(&bits), address, static_cast<size_t>(element_size(buffer.type.dtype)));
  return bits;
}

// Pointers to the `count` results of argument_for() in `buffers`, and to the other arguments of the launch. Valid as
// long as both live.
using DeviceArguments = c10::SmallVector<void*, 32>;
inline DeviceArguments arguments_of(void** buffers, size_t count, const ResolvedLaunch& launch) {
  DeviceArguments out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<void*>(&buffers[i]));
  for (const int64_t& size : launch.sizes) out.push_back(const_cast<int64_t*>(&size));
  out.push_back(const_cast<int64_t*>(&launch.items));
  return out;
}

}  // namespace vesta::runtime
