// The weights of a saved program as tensors, from its file, from a safetensors file, or from the caller; and the memory
// of weights that go into a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "program/file.h"

namespace vesta::runtime {

// `bytes` of a storage from byte `first` on. Bytes of a GPU are copied when they are read, in the order of its current
// stream. Keeps the storage alive.
program::Memory to_be_saved(const c10::Storage& storage, int64_t first, int64_t bytes);

// By weight; undefined where the file does not have it, or `given` has one of this name. Weights on the CPU are in the
// mapping and keep it alive; weights on a GPU are copied there. Weights of one storage share it. Throws c10::Error if
// the GPU's memory is short.
std::vector<at::Tensor> weights_of(const program::Opened& file, const std::set<std::string>& given);
// All tensors of a safetensors file, mapped. Throws UserError that names the file.
std::map<std::string, at::Tensor> load_safetensors(const std::string& path);
// `given` as that weight: with its strides (a copy where it has others). Throws UserError for another shape, dtype or
// device.
at::Tensor as_weight(const program::Weight& w, const at::Tensor& given);

}  // namespace vesta::runtime
