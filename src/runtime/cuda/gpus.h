// The GPUs of a saved program in this process.
#pragma once

#include "program/program.h"

namespace vesta::runtime {

// Loads PyTorch's CUDA library if a program needs a GPU and the process, one of C++ mostly, has not loaded it. Throws
// UserError that names the GPU which is not here, and says what to do.
void need_gpus(const program::Program& program);

}  // namespace vesta::runtime
