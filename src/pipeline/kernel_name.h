// The names of kernels. A name is for people; nothing depends on it.
#pragma once

#include <string>
#include <vector>

namespace vesta::pipeline {

// The name of a kernel in dumps, reports and profilers: "layer_norm_add" for "aten::layer_norm" and "aten::add.Tensor".
// No operator is appended once the name has 60 characters.
std::string kernel_name(const std::vector<std::string>& ops);

}  // namespace vesta::pipeline
