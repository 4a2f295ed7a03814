// A Target as LLVM's object for it.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include "base/target.h"

namespace vesta::codegen {

// This thread's target machine for `target`; created on first use, never shared.
llvm::TargetMachine& thread_target_machine(const Target& target);

}  // namespace vesta::codegen
