// What makes code for GPUs in this process, NVRTC and its linker, known without loading them: a process that finds its
// programs in the store needs neither, and runs where there is none.
//
// The store keeps notes: under the libraries' build IDs, what a process learned when it loaded them; and which ones
// code was made by last in this store. A process whose libraries have a note believes it. One that finds no library
// takes the code of those that the last note names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace vesta::codegen {

struct Toolchain {
  std::string name;                // "nvrtc 13.0 build 1f..., linker build 2e...": equal names, equal code
  std::vector<int> architectures;  // for which it makes code, sorted: 75, 80, 86, ...
};

// nullptr: there is none, nor code of any, for the reason `why`. Once per process; thread-safe.
const Toolchain* toolchain(std::string* why = nullptr);

// Loads it, since code is to be made. Throws Unsupported where it is not there, or not the one that toolchain() names.
void load_toolchain();

// A digest of the sources that make kernels' texts.
std::string_view cuda_sources();

}  // namespace vesta::codegen
