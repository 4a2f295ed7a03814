// Kernels of any length.
#pragma once

#include <string>

#include "base/prim.h"
#include "base/type.h"

namespace vesta::codegen::testing {

// Applies a primitive `n` times, one after another.
std::string chain(Prim p, DType t, int n);

}  // namespace vesta::codegen::testing
