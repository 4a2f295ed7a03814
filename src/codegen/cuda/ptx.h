// A PTX module of several kernels (PTX ISA, "Source Format") in parts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesta::codegen {

// A module for each of `entries`: the kernel, and the functions and variables of the module that it uses. Names that
// the compiler numbered over the whole module are numbered anew: a kernel's part does not depend on its neighbours.
// Throws InternalError where an entry is missing.
std::vector<std::string> split_ptx(std::string_view ptx, std::span<const std::string> entries);

}  // namespace vesta::codegen
