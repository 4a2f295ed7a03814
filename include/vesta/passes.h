// The graph passes by name: what Options::skip_passes may hold.
#pragma once

#include <string>
#include <vector>

#include "vesta/error.h"

namespace vesta {

// In the order in which they run.
VESTA_API std::vector<std::string> passes();

}  // namespace vesta
