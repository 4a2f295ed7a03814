// The release of the torch in this process.
#pragma once

#include <string>

namespace vesta {

// "2.13": all releases of one minor version have the same operators.
const std::string& torch_release();

}  // namespace vesta
