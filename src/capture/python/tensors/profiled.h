// Ranges that PyTorch's profiler shows.
#pragma once

#include <memory>
#include <string>

namespace vesta::capture {

// A range as long as the result exists. Kernels that run meanwhile have ranges as well.
std::shared_ptr<const void> profiled_range(const std::string& name);

}  // namespace vesta::capture
