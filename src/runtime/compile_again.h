// Compiles a saved variant that was made for another CPU or another torch again, for this process. Two libraries define
// it: libvesta has a compiler (pipeline/compile_again.cpp), libvesta_runtime has none (runtime/no_compiler/).
#pragma once

#include <optional>

#include "program/program.h"

namespace vesta::runtime {

// nullopt: this library has no compiler. Throws Unsupported or InternalError.
std::optional<artifact::Artifact> compile_again(const program::Variant& variant);

}  // namespace vesta::runtime
