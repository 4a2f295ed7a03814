// The tools that make code for GPUs in this process, NVRTC and its linker, described without loading them. A process
// that finds its programs in the store needs neither and runs without them.
//
// The store keeps notes. Under the libraries' build IDs: what a process found out when it loaded them. Under a fixed
// name: which libraries made code last. A process whose libraries have a note relies on it. A process that finds no
// library uses code of those that the last note names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vesta::codegen {

struct Toolchain {
  std::string name;                // "nvrtc 13.0 build 1f..., linker build 2e...": equal names, equal code
  std::vector<int> architectures;  // the GPUs that it makes code for, sorted: 75, 80, 86, ...
};

// nullptr: there are no tools and no code made by any; `why` gets the reason. Determined once per process. Thread-safe.
const Toolchain* toolchain(std::string* why = nullptr);

// Loads the tools to make code. Throws Unsupported if they are missing or are not those that toolchain() describes.
void load_toolchain();

// A digest of the source files that make kernels' texts.
std::string_view cuda_sources();

}  // namespace vesta::codegen
