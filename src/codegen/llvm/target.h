// The machine that code is generated for: this one, as LLVM describes it.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>

#include "codegen/codegen.h"

namespace vesta::codegen {

// This thread's target machine; created on first use, never shared.
llvm::TargetMachine& thread_target_machine();

struct HostFeatures {
  bool avx512 = false;        // with BW, VL, DQ: masks are cheap
  bool half_convert = false;  // float <-> half in vectors
  bool fma = false;
  bool streaming_stores = false;  // stores past the caches, and a fence for them
};
const HostFeatures& host_features();

}  // namespace vesta::codegen
