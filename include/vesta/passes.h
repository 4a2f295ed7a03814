// The names of the graph passes, which Options::skip_passes takes.
#pragma once

#include <string>
#include <vector>

#include "vesta/error.h"

namespace vesta {

// In the order in which the passes run.
VESTA_API std::vector<std::string> passes();

}  // namespace vesta
