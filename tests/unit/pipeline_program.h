// The program of tests that compile any program.
#pragma once

#include <string_view>

namespace vesta::testing {

constexpr std::string_view kProgram = R"(
input %0 : f32[4, 8] = argument "x"
%1 : f32[4, 8] = aten::exp(%0)
%2 : f32[4, 8] = aten::silu(%1)
output %2
)";

}  // namespace vesta::testing
