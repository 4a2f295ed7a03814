// Kernels without machine code: exact and slow, for builds without a code generator and for tests.
#pragma once

#include <memory>

#include "machine/load.h"

namespace vesta::machine {

// Throws Unsupported where more than 256 kernels would be interpreted at once.
std::shared_ptr<const Code> load_interpreted(const Object& object);

}  // namespace vesta::machine
