// Kernels that may take more memory than this process may give to LLVM. The estimate of their memory (memory.h) is an
// upper bound, and LLVM can neither be stopped nor survive a failed allocation. So a process of its own, the program
// vesta_kernel_compiler beside the library, compiles such a kernel under RLIMIT_AS, with a low priority, for a
// bounded time. The object's bytes are those that this process would make.
#pragma once

#include "base/compile_memory.h"
#include "codegen/batch.h"
#include "codegen/codegen.h"

namespace vesta::codegen {

// `refused`: why this process does not compile the kernel. Holds all of the memory for generators meanwhile. Throws
// `refused`, with the reason added, if the process cannot compile it either, and Cancelled. Makes no dumps.
Generated generate_in_kernel_compiler(const Wanted& kernel, const Target& target, const CompileOptions& options,
                                      const OverBudget& refused);

}  // namespace vesta::codegen
