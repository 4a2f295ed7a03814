// Object code into this process.
#pragma once

#include <llvm/Support/MemoryBuffer.h>

#include <memory>
#include <string>

#include "codegen/codegen.h"

namespace vesta::codegen {

// Links one object that defines `symbol` (a name not linked before in this process). Thread-safe.
std::shared_ptr<const Code> link(std::unique_ptr<llvm::MemoryBuffer> object, const std::string& symbol);

}  // namespace vesta::codegen
