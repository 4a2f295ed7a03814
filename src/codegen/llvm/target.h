// Makes LLVM's object for a Target.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include "base/target.h"

namespace vesta::codegen {

// This thread's target machine for `target`. It is made at the first use and never shared between threads.
llvm::TargetMachine& thread_target_machine(const Target& target);

}  // namespace vesta::codegen
