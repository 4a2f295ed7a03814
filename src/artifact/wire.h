// What artifact.fbs says, as flatc writes it, and what it cannot say.
#pragma once

#include <artifact_generated.h>

#include <cstdint>

namespace vesta::artifact {

constexpr uint32_t kNoProgram = ~uint32_t{0};  // in the place of a program's number: an empty Size

}  // namespace vesta::artifact
