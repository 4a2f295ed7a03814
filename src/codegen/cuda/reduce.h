// The initial value of a reduction, and how it combines two values, as CUDA C++.
#pragma once

#include <string>

#include "loops/kernel.h"

namespace vesta::codegen {

// ArgMax or ArgMin: values are paired with their positions.
bool is_arg(const loops::Instr& i);
std::string identity_text(const loops::Instr& i);
// Combines two named values. Not for ArgMax and ArgMin.
std::string combined_text(const loops::Instr& i, const std::string& a, const std::string& b);

}  // namespace vesta::codegen
