// A launch of a kernel on a GPU, as machine::DeviceKernel takes it.
#pragma once

#include <c10/util/SmallVector.h>

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

// Pointers to `buffers`, `count` addresses, and to what else the launch has. Valid as long as both.
using DeviceArguments = c10::SmallVector<void*, 32>;
inline DeviceArguments arguments_of(void** buffers, size_t count, const ResolvedLaunch& launch) {
  DeviceArguments out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<void*>(&buffers[i]));
  for (const int64_t& size : launch.sizes) out.push_back(const_cast<int64_t*>(&size));
  out.push_back(const_cast<int64_t*>(&launch.items));
  return out;
}

}  // namespace vesta::runtime
