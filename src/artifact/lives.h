// Compares where each buffer is used with the life that it declares. Changes nothing.
#pragma once

#include "artifact/artifact.h"

namespace vesta::artifact {

// Throws InternalError if a step uses a buffer outside its life in the arena, reads a prepacked constant that no step
// makes, or writes a buffer that it may not write, or if two buffers of the arena share memory while both live
// (constant sizes only). Indices must be verified before.
void verify_lives(const Artifact& artifact);

}  // namespace vesta::artifact
