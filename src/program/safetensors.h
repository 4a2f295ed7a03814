// Reads the list of tensors in a safetensors file (huggingface.co/docs/safetensors: 8 bytes of length, JSON, the data).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/type.h"

namespace vesta::program {

struct TensorInFile {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;  // contiguous
  size_t at = 0;               // position in the file
  size_t bytes = 0;
};

// Tensors of types that Vesta does not compute with are left out. Throws UserError if the file is not a safetensors
// file or is damaged.
std::map<std::string, TensorInFile> read_safetensors(std::string_view file);

}  // namespace vesta::program
