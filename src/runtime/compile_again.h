// A saved variant that was compiled for another CPU or another torch, compiled for this one. Two libraries define it:
// libvesta has a compiler (pipeline/compile_again.cpp), libvesta_runtime has none (runtime/no_compiler/).
#pragma once

#include <optional>

#include "program/program.h"

namespace vesta::runtime {

// nullopt: there is no compiler in this library. Throws Unsupported, InternalError.
std::optional<artifact::Artifact> compile_again(const program::Variant& variant);

}  // namespace vesta::runtime
