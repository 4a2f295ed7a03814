// Checks that the GPUs of a saved program are in this process.
#pragma once

#include "program/program.h"

namespace vesta::runtime {

// Loads PyTorch's CUDA library if a program needs a GPU and the process has not loaded it, as in a C++ program. Throws
// UserError that names the missing GPU and says what to do.
void need_gpus(const program::Program& program);

}  // namespace vesta::runtime
