// Kernels of any length.
#pragma once

#include <string>
#include <string_view>

#include "base/prim.h"
#include "base/type.h"

namespace vesta::codegen::testing {

// Applies a primitive `n` times, one after another. `schedule`: the lines of the text after its range.
std::string chain(Prim p, DType t, int n, std::string_view schedule);
// The same with the vectors of this machine.
std::string chain(Prim p, DType t, int n);

}  // namespace vesta::codegen::testing
