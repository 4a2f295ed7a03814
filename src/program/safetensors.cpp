#include "program/safetensors.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"

namespace vesta::program {
namespace {

std::optional<DType> dtype_of(const std::string& name) {
  static const auto* known = new std::map<std::string, DType>{{"BOOL", DType::Bool},
                                                              {"U8", DType::U8},
                                                              {"I8", DType::I8},
                                                              {"I16", DType::I16},
                                                              {"I32", DType::I32},
                                                              {"I64", DType::I64},
                                                              {"U16", DType::U16},
                                                              {"U32", DType::U32},
                                                              {"U64", DType::U64},
                                                              {"F16", DType::F16},
                                                              {"BF16", DType::BF16},
                                                              {"F32", DType::F32},
                                                              {"F64", DType::F64},
                                                              {"C64", DType::C64},
                                                              {"F8_E4M3", DType::F8E4M3FN},
                                                              {"F8_E5M2", DType::F8E5M2},
                                                              {"F8_E8M0", DType::F8E8M0FNU}};
  const auto at = known->find(name);
  return at == known->end() ? std::nullopt : std::optional(at->second);
}

TensorInFile tensor(const std::string& name, DType dtype, const nlohmann::json& entry, size_t data, size_t end) {
  TensorInFile out;
  out.dtype = dtype;
  size_t bytes = static_cast<size_t>(element_size(dtype));
  for (const auto& size : entry.at("shape")) {
    const auto n = size.get<uint64_t>();
    VESTA_USER_CHECK(n == 0 || bytes <= (size_t{1} << 48) / n, "the tensor {} is too large", name);
    bytes *= n;
    out.sizes.push_back(static_cast<int64_t>(n));
  }
  const auto first = entry.at("data_offsets").at(0).get<uint64_t>(),
             last = entry.at("data_offsets").at(1).get<uint64_t>();
  VESTA_USER_CHECK(first <= last && last <= end - data && last - first == bytes, "the tensor {} lies beyond its end",
                   name);
  out.at = data + first;
  out.bytes = bytes;
  return out;
}

}  // namespace

std::map<std::string, TensorInFile> read_safetensors(std::string_view file) {
  uint64_t length = 0;
  VESTA_USER_CHECK(file.size() >= sizeof length, "it is not a safetensors file");
  std::memcpy(&length, file.data(), sizeof length);
  VESTA_USER_CHECK(length <= file.size() - sizeof length, "it is not a safetensors file, or it is cut short");
  const size_t data = sizeof length + length;
  std::map<std::string, TensorInFile> out;
  try {
    const auto header = nlohmann::json::parse(file.substr(sizeof length, length));
    VESTA_USER_CHECK(header.is_object(), "its header is not a JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      if (const auto dtype = dtype_of(entry.at("dtype").get<std::string>()))
        out.emplace(name, tensor(name, *dtype, entry, data, file.size()));
    }
  } catch (const nlohmann::json::exception& e) {
    throw UserError(fmt::format("its header cannot be read: {}", e.what()));
  }
  return out;
}

}  // namespace vesta::program
