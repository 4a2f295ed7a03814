// The reader and writer that flatc makes from artifact.fbs, and the constants that the schema cannot express.
#pragma once

#include <artifact_generated.h>

#include <cstdint>

namespace vesta::artifact {

constexpr uint32_t kNoProgram = ~uint32_t{0};  // in place of a program's index: an empty Size

}  // namespace vesta::artifact
