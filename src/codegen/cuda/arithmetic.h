// The scalar arithmetic of kernels as CUDA C++, over the names of values. It calls functions of the prelude (source.h)
// and of CUDA only.
#pragma once

#include <string>
#include <string_view>

#include "base/prim.h"
#include "base/type.h"

namespace vesta::codegen {

bool is_half(DType t);
std::string_view stored_type(DType t);      // the type of an element in memory; halves are their bits
std::string_view value_type_name(DType t);  // the type of a value in a register; arithmetic on halves is in F32
std::string literal(double v, DType t);
// Converts an element of memory to a value (loaded) and a value to an element (to_store).
std::string loaded(DType t, const std::string& element);
std::string to_store(DType t, const std::string& x);
std::string cast_text(DType from, DType to, const std::string& x);
// Integers wrap around. They are computed as unsigned, because signed overflow is undefined in C++.
std::string arithmetic(const char* op, DType t, const std::string& a, const std::string& b);
// `t`: the type of the operands. Operands that the primitive does not take are empty.
std::string primitive_text(Prim prim, DType t, const std::string& a, const std::string& b, const std::string& c);

}  // namespace vesta::codegen
