// The weights of a saved program as tensors: those of its file, of a safetensors file, or the caller's; and the memory
// that a file is made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/file.h"

namespace vesta::runtime {

// `bytes` of a storage from byte `first` on. Those of a GPU are copied when they are asked for, in the order of its
// current stream. Keeps the storage.
program::Memory to_be_saved(const c10::Storage& storage, int64_t first, int64_t bytes);

// By weight; undefined where the file has none, or `given` has one of this name. Those on the CPU lie in the mapping,
// and keep it; those on a GPU are copied there. Weights of one storage share it. Throws c10::Error: the GPU's memory is
// short.
std::vector<at::Tensor> weights_of(const program::Opened& file, const std::set<std::string>& given);
// All tensors of a safetensors file, mapped. Throws UserError naming the file.
std::map<std::string, at::Tensor> load_safetensors(const std::string& path);
// `given` as that weight: with its strides (a copy where it has others). Throws UserError for another shape, dtype or
// device.
at::Tensor as_weight(const program::Weight& w, const at::Tensor& given);

}  // namespace vesta::runtime
