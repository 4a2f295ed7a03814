#include "capture/python/saving/weights.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "interop/torch_types.h"
#include "runtime/weights.h"

namespace vesta::capture {

WeightTable::WeightTable(const std::vector<std::pair<std::string, Object>>& names) {
  for (const auto& [name, tensor] : names) names_.try_emplace(tensor.get(), name);
}

int WeightTable::add(PyObject* tensor, const std::string& name) {
  const auto [at, fresh] = numbers_.try_emplace(tensor, static_cast<int>(tensors_.size()));
  if (!fresh) return at->second;
  const auto known = names_.find(tensor);
  const std::string& label = known == names_.end() ? name : known->second;
  const at::Tensor& t = THPVariable_Unpack(tensor);
  VESTA_USER_CHECK(t.layout() == c10::kStrided && t.has_storage() && to_dtype(t.scalar_type()) != DType::Other,
                   "the tensor {} is not dense or has a dtype that Vesta does not support", label);
  VESTA_USER_CHECK(t.device().is_cpu() || t.device().is_cuda(),
                   "the tensor {} is on {}; only tensors on the CPU or a GPU can be saved", label, t.device().str());
  VESTA_USER_CHECK(!t.is_conj() && !t.is_neg(), "the tensor {} is a lazy conjugate: resolve_conj() makes it plain",
                   label);
  tensors_.emplace_back(Object::share(tensor), label);
  return at->second;
}

std::vector<program::Memory> WeightTable::finish(program::Program& program) {
  // Of a storage, only what the weights reach is saved.
  struct Range {
    int64_t first, last;  // bytes
  };
  std::unordered_map<const c10::StorageImpl*, size_t> numbers;
  std::vector<Range> ranges;
  std::vector<c10::Storage> storages;
  std::set<std::string> used;
  for (const auto& [object, label] : tensors_) {
    const at::Tensor& t = THPVariable_Unpack(object.get());
    program::Weight w;
    w.name = label;
    for (int k = 2; !used.insert(w.name).second; ++k) w.name = fmt::format("{}_{}", label, k);
    w.dtype = to_dtype(t.scalar_type());
    w.device = to_device(t.device());
    w.sizes = t.sizes().vec();
    w.strides = t.strides().vec();
    w.offset = t.storage_offset();
    const auto [at, fresh] = numbers.try_emplace(t.storage().unsafeGetStorageImpl(), ranges.size());
    w.storage = static_cast<int>(at->second);
    const int64_t first = w.offset * element_size(w.dtype), last = std::max(program::reach(w), first);
    if (fresh) {
      ranges.push_back({first, last});
      storages.push_back(t.storage());
    }
    Range& r = ranges[at->second];
    r = {std::min(r.first, first), std::max(r.last, last)};
    program.weights.push_back(std::move(w));
  }
  constexpr int64_t kAlign = 64;  // any element size divides it
  for (Range& r : ranges) r.first = r.first / kAlign * kAlign;
  for (program::Weight& w : program.weights)
    w.offset -= ranges[static_cast<size_t>(w.storage)].first / element_size(w.dtype);
  std::vector<program::Memory> memory;
  for (size_t i = 0; i < ranges.size(); ++i) {
    program.storages.push_back({ranges[i].last - ranges[i].first, -1, 0});
    memory.push_back(runtime::to_be_saved(storages[i], ranges[i].first, ranges[i].last - ranges[i].first));
  }
  return memory;
}

}  // namespace vesta::capture
