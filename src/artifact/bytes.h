// An artifact as bytes (FlatBuffers, artifact.fbs) and back, for stores and files. No byte is used before it is
// checked.
#pragma once

#include "artifact/artifact.h"

namespace vesta::artifact {

// The version of the bytes. Stores and files keep it beside them and read no other version.
constexpr uint32_t kFormat = 5;

// Equal artifacts give equal bytes in every process.
std::string encode(const Artifact& artifact);

// Checks every offset, type and number (verify()) before any is used. Throws InternalError if the bytes are damaged or
// of another format. `bytes` needs no alignment.
Artifact decode(std::string_view bytes);

// Checks that every index is in range, every expression can be evaluated when it is needed, every shape has strides,
// and every view and every life in the arena agrees with its buffer. Throws InternalError that names the first failure.
// Sizes that depend on symbols are compared at run time (runtime/resolve.cpp). A run of a verified artifact stays
// within its own memory provided that kernels, launches, the order of kernels and their assertions, guards and buffer
// sizes are as the compiler made them. Stores and files keep a digest of these.
void verify(const Artifact& artifact);

// Bytes from the first to the last element of a tensor whose elements have `item` bytes. Throws InternalError if a size
// or a stride is negative or the tensor is larger than any memory.
int64_t reach(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t item);

}  // namespace vesta::artifact
