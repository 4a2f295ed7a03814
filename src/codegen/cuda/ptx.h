// Splits a PTX module with several kernels into parts (PTX ISA, "Source Format"). Changes no instruction.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vesta::codegen {

// Makes a module for each of `entries`: the kernel and the functions and variables that it uses. Names that the
// compiler numbered over the whole module are renumbered, so a kernel's part does not depend on the other kernels.
// Throws InternalError if an entry is missing.
std::vector<std::string> split_ptx(std::string_view ptx, std::span<const std::string> entries);

}  // namespace vesta::codegen
