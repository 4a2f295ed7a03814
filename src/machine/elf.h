// Loads relocatable ELF files, as code generators for x86-64 write them (System V ABI, AMD64 supplement 1.0).
#pragma once

#include "machine/load.h"

namespace vesta::machine {

// Lays out the sections, resolves imports through a table of pointers and short jumps near the code, relocates, and
// makes the code executable and read-only. Checks every offset: damaged bytes are an InternalError.
std::shared_ptr<const Code> load_elf(const Object& object);

}  // namespace vesta::machine
