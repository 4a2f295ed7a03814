// The weights of a saved program as tensors: mapped from its file, read from a safetensors file, or the caller's.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "program/file.h"

namespace vesta::runtime {

// By weight; undefined where the file has none. They lie in the mapping, and keep it.
std::vector<at::Tensor> mapped_weights(const program::Opened& file);
// All tensors of a safetensors file, mapped. Throws UserError naming the file.
std::map<std::string, at::Tensor> load_safetensors(const std::string& path);
// `given` as that weight: with its strides (a copy where it has others). Throws UserError for another shape or dtype.
at::Tensor as_weight(const program::Weight& w, const at::Tensor& given);

}  // namespace vesta::runtime
