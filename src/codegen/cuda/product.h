// Matrix products on tensor cores as CUDA C++: what kernels with a loops::ProductTile call.
//
// Some warps copy slices of the operands to a pipeline in shared memory; the others multiply them there (CUTLASS,
// "Efficient GEMM in CUDA"; PTX ISA, wgmma.mma_async, cp.async and mbarrier). A slice has 128 bytes of each row. It is
// copied in pieces of 16 bytes, so operands need no tensor map, and their addresses may change from launch to launch.
#pragma once

#include <cstdint>
#include <string>

#include "loops/product.h"

namespace vesta::codegen {

// The functions that such kernels use. They follow the prelude (source.h); a text may contain them several times.
extern const char* const kProductPrelude;

// The name in the prelude for operands of these types.
std::string_view product_operands(const loops::ProductTypes& types);
// The instruction that multiplies 64 rows by `columns` columns, on the GPUs of compute capability 9.0.
std::string product_instruction(int64_t columns, const loops::ProductTypes& types);

}  // namespace vesta::codegen
