// A program as bytes (FlatBuffers, program.fbs) and back.
#pragma once

#include <string>
#include <string_view>

#include "program/program.h"

namespace vesta::program {

// Equal programs give equal bytes.
std::string encode(const Program& program);

// Checks every offset, type and number before anything is used. Throws InternalError where the bytes are damaged, and
// UserError where their artifacts are of another version.
Program decode(std::string_view bytes);

// Throws InternalError where an index points nowhere. Extents of storages are checked against the file by its reader.
void verify(const Program& program);

}  // namespace vesta::program
