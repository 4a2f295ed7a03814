// For handlers that take the place of composite kernels of ATen where sizes are symbolic.
#pragma once

#include <c10/core/SymIntArrayRef.h>

#include <algorithm>

namespace vesta::trace {

inline bool any_symbolic(c10::SymIntArrayRef sizes) {
  return std::ranges::any_of(sizes, [](const c10::SymInt& size) { return size.is_symbolic(); });
}

}  // namespace vesta::trace
