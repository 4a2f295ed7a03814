#pragma once

#include <string>
#include <vector>

namespace vesta::pipeline {

// What dumps, reports and profilers call a kernel: "layer_norm_add" of "aten::layer_norm" and "aten::add.Tensor". From
// the 60th character on no operator is added.
std::string kernel_name(const std::vector<std::string>& ops);

}  // namespace vesta::pipeline
