// An artifact as bytes (FlatBuffers, artifact.fbs) and back: what stores and files hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "artifact/artifact.h"

namespace vesta::artifact {

// Of the bytes; whoever keeps them writes it beside them. 1: the first.
constexpr uint32_t kFormat = 1;

// Equal artifacts give equal bytes in every process.
std::string encode(const Artifact& artifact);

// Checks every offset, type and number (verify()) before anything is used. Throws InternalError where bytes are damaged
// or of another format. 16-byte alignment of `bytes` is not needed.
Artifact decode(std::string_view bytes);

// Throws InternalError naming the first number that points nowhere, expression that cannot be evaluated or shape
// without strides. What a run does with a verified artifact stays inside its own memory if kernels, launches and sizes
// of buffers are those that a compile made; stores and files keep these under a digest.
void verify(const Artifact& artifact);

}  // namespace vesta::artifact
