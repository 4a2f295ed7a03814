// Functions that generated code may call, by name: vector routines of the C library where it has them, and our own,
// which take whole vectors through memory.
#pragma once

#include <string>
#include <string_view>

#include "base/prim.h"
#include "base/type.h"

namespace vesta::machine {

// nullptr: this process has no such function for kernels.
void* import_address(std::string_view name);

// The C library's vector function for `p` on `lanes` elements of F32 or F64 ("_ZGVeN16v_tanf"), empty if there is none.
std::string vector_function(Prim p, DType t, int lanes);
// The names of all of them, sorted: which there are depends on the C library.
std::string vector_functions();
// "vesta_tan_f32": void(const T* a, const T* b, T* out, int32_t lanes); b is null for one operand. Empty if there is
// none.
std::string lane_function(Prim p, DType t);

}  // namespace vesta::machine
