// Where each buffer is used, compared with where it says that it lives.
#pragma once

#include "artifact/artifact.h"

namespace vesta::artifact {

// Throws InternalError where a step uses a buffer before or after its life in the arena or reads a derived weight that
// no derived step makes, where buffers of the arena share memory while both live (constant sizes), where something
// writes what is not its to write, or where a kernel is given memory that is not the CPU's. Indices must be verified.
void verify_lives(const Artifact& artifact);

}  // namespace vesta::artifact
