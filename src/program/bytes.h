// A saved program as bytes (FlatBuffers, program.fbs) and back. No byte is used before it is checked.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace vesta::program {

// Equal programs give equal bytes.
std::string encode(const Program& program);

// Checks every offset, type and number before any is used. Throws InternalError if the bytes are damaged, and UserError
// if their artifacts are of another version.
Program decode(std::string_view bytes);

// Throws InternalError if an index is out of range. The reader of the file checks the extents of storages against it.
void verify(const Program& program);

}  // namespace vesta::program
