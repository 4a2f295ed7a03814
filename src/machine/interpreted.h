// Runs kernels without machine code, exact but slow, for builds without a code generator and for tests.
#pragma once

#include "machine/load.h"

namespace vesta::machine {

// Throws Unsupported if more than 256 interpreted kernels would exist at once.
std::shared_ptr<const Code> load_interpreted(const Object& object);

}  // namespace vesta::machine
