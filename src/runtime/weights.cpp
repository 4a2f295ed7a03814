#include "runtime/weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "interop/torch_types.h"
#include "program/safetensors.h"

namespace vesta::runtime {
namespace {

// Memory of a mapped file as a tensor that keeps the mapping alive. Misaligned elements are copied.
at::Tensor tensor_at(const std::shared_ptr<program::Mapping>& mapping, char* at, c10::IntArrayRef sizes,
                     c10::IntArrayRef strides, DType dtype) {
  const auto options = at::TensorOptions(to_scalar_type(dtype));
  const at::Tensor t = at::from_blob(at, sizes, strides, [mapping](void*) {}, options);
  const auto alignment = static_cast<uintptr_t>(element_size(dtype));
  return reinterpret_cast<uintptr_t>(at) % alignment == 0 ? t : t.clone();
}

}  // namespace

program::Memory to_be_saved(const c10::Storage& storage, int64_t first, int64_t bytes) {
  if (bytes == 0) return [] { return std::shared_ptr<const char>(std::shared_ptr<void>(), ""); };
  if (storage.device().is_cpu()) {
    const auto* const data = static_cast<const char*>(storage.data()) + first;
    return [storage, data] { return std::shared_ptr<const char>(std::make_shared<c10::Storage>(storage), data); };
  }
  return [storage, first, bytes] {
    at::Tensor there = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
    there.set_(storage, first, {bytes}, {1});
    const auto here = std::make_shared<const at::Tensor>(there.to(at::kCPU));
    return std::shared_ptr<const char>(here, static_cast<const char*>(here->const_data_ptr()));
  };
}

std::vector<at::Tensor> weights_of(const program::Opened& file, const std::set<std::string>& given) {
  std::vector<at::Tensor> storages(file.program.storages.size()), out;
  for (const program::Weight& w : file.program.weights) {
    const program::Storage& s = file.program.storages[static_cast<size_t>(w.storage)];
    at::Tensor& bytes = storages[static_cast<size_t>(w.storage)];
    if (s.at < 0 || given.contains(w.name)) {
      out.emplace_back();
      continue;
    }
    const c10::Device device = to_torch(w.device);
    if (!bytes.defined()) bytes = tensor_at(file.mapping, file.memory(s), {s.bytes}, {1}, DType::U8).to(device);
    at::Tensor t = at::empty({0}, at::TensorOptions(to_scalar_type(w.dtype)).device(device));
    t.set_(bytes.storage(), w.offset, w.sizes, w.strides);
    out.push_back(std::move(t));
  }
  return out;
}

std::map<std::string, at::Tensor> load_safetensors(const std::string& path) {
  const auto mapping = std::make_shared<program::Mapping>(path);
  std::map<std::string, at::Tensor> out;
  try {
    for (const auto& [name, t] : program::read_safetensors(mapping->bytes())) {
      std::vector<int64_t> strides(t.sizes.size());
      int64_t step = 1;
      for (size_t d = t.sizes.size(); d-- > 0; step *= std::max<int64_t>(t.sizes[d], 1)) strides[d] = step;
      out.emplace(name, tensor_at(mapping, mapping->data() + t.at, t.sizes, strides, t.dtype));
    }
  } catch (const UserError& e) {
    throw UserError(fmt::format("{} cannot be loaded: {}", path, e.what()));
  }
  return out;
}

at::Tensor as_weight(const program::Weight& w, const at::Tensor& given) {
  VESTA_USER_CHECK(given.defined() && given.layout() == c10::kStrided, "the weight {} is not a dense tensor", w.name);
  VESTA_USER_CHECK(given.sizes() == c10::IntArrayRef(w.sizes) && to_dtype(given.scalar_type()) == w.dtype,
                   "the weight {} is {}[{}], not {}[{}]", w.name, name(w.dtype), fmt::join(w.sizes, ", "),
                   name(to_dtype(given.scalar_type())), fmt::join(given.sizes(), ", "));
  VESTA_USER_CHECK(to_device(given.device()) == w.device, "the weight {} is on {}, not on {}: move the tensor there",
                   w.name, to_string(w.device), given.device().str());
  at::Tensor plain = given.detach();
  if (given.strides() == c10::IntArrayRef(w.strides)) return plain;
  at::Tensor copy = at::empty_strided(w.sizes, w.strides, given.options());
  copy.copy_(plain);
  return copy;
}

}  // namespace vesta::runtime
