// Memory of ATen's tensors with a page behind it that cannot be touched, so that ATen's own code, which no sanitizer
// sees, ends the process too where it leaves its memory.
#pragma once

namespace vesta::files {

// From now on, for every tensor on the CPU that ATen allocates.
void guard_tensors();

}  // namespace vesta::files
