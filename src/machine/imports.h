// The functions that generated code may call, by name: vector routines of the C library, and Vesta's own routines,
// which take whole vectors through memory. Code that calls any other function is not loaded.
#pragma once

#include "base/prim.h"
#include "base/type.h"

namespace vesta::machine {

// nullptr: this process has no such function for kernels.
void* import_address(std::string_view name);

// The C library's vector function for `p` on `lanes` elements of F32 or F64 ("_ZGVeN16v_tanf"); empty if it has none.
std::string vector_function(Prim p, DType t, int lanes);
// All names, sorted. They depend on the version of the C library.
std::string vector_functions();
// "vesta_tan_f32": void(const T* a, const T* b, T* out, int32_t lanes); b is null for functions of one operand. Empty
// if Vesta has none.
std::string lane_function(Prim p, DType t);

}  // namespace vesta::machine
