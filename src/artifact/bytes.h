// An artifact as bytes (FlatBuffers, artifact.fbs) and back: what stores and files hold.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "artifact/artifact.h"

namespace vesta::artifact {

// The version of the bytes. Who stores them stores it beside them, and reads no other version.
constexpr uint32_t kFormat = 5;

// Equal artifacts give equal bytes in every process.
std::string encode(const Artifact& artifact);

// Checks every offset, type and number (verify()) before anything is used. Throws InternalError where bytes are damaged
// or of another format. 16-byte alignment of `bytes` is not needed.
Artifact decode(std::string_view bytes);

// Throws InternalError where an index points nowhere, an expression cannot be evaluated or not when it is needed, a
// shape has no strides, a view or a life in the arena is not what the buffer has, and names the first of them. Sizes
// that depend on symbols are compared when they are known (runtime/bounds.h). A run of a verified artifact stays inside
// its own memory as long as kernels, launches and the order in which they and their assertions run, guards, and sizes
// of buffers are as the compiler made them; stores and files keep a digest of these.
void verify(const Artifact& artifact);

// Bytes from the first to the last element of such a tensor, whose elements have `item` bytes. Throws InternalError
// where a size or a stride is negative or the tensor is larger than any memory.
int64_t reach(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t item);

}  // namespace vesta::artifact
