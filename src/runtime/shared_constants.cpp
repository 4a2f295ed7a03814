#include "runtime/shared_constants.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/at_fork.h"

namespace vesta::runtime {
namespace {

int64_t version_of(const at::Tensor& t) { return t.is_inference() ? -1 : static_cast<int64_t>(t._version()); }

struct Entry {
  ParameterVersions versions;
  std::weak_ptr<const PackedTensors> made;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::vector<Entry>> entries;  // by packing
};
// It lives for ever, because programs may die while the process ends. A forked child finds the mutex free.
Registry& registry() {
  static auto* const r = new Registry;
  return *r;
}
const AtFork at_fork(
    ForkStage::Registries, [] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
    [] { registry().mutex.unlock(); });

std::shared_ptr<const PackedTensors> find(const std::vector<Entry>& entries, std::span<const at::Tensor> parameters) {
  for (const Entry& e : entries) {
    bool same = e.versions.size() == parameters.size();
    for (size_t i = 0; same && i < parameters.size(); ++i) same = e.versions[i].current(parameters[i]);
    // Only what is returned is locked: a reference that ended here would be the last one under the registry's lock.
    if (!same) continue;
    if (auto made = e.made.lock()) return made;
  }
  return nullptr;
}

}  // namespace

ParameterVersion::ParameterVersion(const at::Tensor& t)
    : tensor_(t.getIntrusivePtr()),
      storage_(t.storage().getWeakStorageImpl()),
      tensor_address_(t.unsafeGetTensorImpl()),
      storage_address_(t.storage().unsafeGetStorageImpl()),
      data_(t.const_data_ptr()),
      version_(version_of(t)) {}

bool ParameterVersion::current(const at::Tensor& t) const {
  return version_ >= 0 && t.unsafeGetTensorImpl() == tensor_address_ &&
         t.storage().unsafeGetStorageImpl() == storage_address_ && t.const_data_ptr() == data_ &&
         version_of(t) == version_;
}

PackedTensors::PackedTensors(std::string packing, std::vector<at::Tensor> tensors, int64_t bytes, void* stream)
    : packing_(std::move(packing)),
      tensors_(std::move(tensors)),
      bytes_(bytes),
      held_(totals::Memory::PackedWeights, bytes),
      streams_{stream} {}

PackedTensors::~PackedTensors() {
  if (packing_.empty()) return;
  std::vector<Entry> ended;  // ends without the lock
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().entries.find(packing_);
  if (at == registry().entries.end()) return;
  std::vector<Entry>& entries = at->second;
  const auto alive = std::partition(entries.begin(), entries.end(), [](const Entry& e) { return !e.made.expired(); });
  ended.assign(std::make_move_iterator(alive), std::make_move_iterator(entries.end()));
  entries.erase(alive, entries.end());
  if (entries.empty()) registry().entries.erase(at);
}

void PackedTensors::read_on(void* stream) const {
  const std::lock_guard lock(mutex_);
  if (std::find(streams_.begin(), streams_.end(), stream) != streams_.end()) return;
  streams_.push_back(stream);
  for (const at::Tensor& t : tensors_) {
    if (!t.has_storage() || t.device().is_cpu()) continue;
    const c10::impl::VirtualGuardImpl device(t.device().type());
    device.recordDataPtrOnStream(t.storage().data_ptr(), device.getStream(t.device()));
  }
}

std::shared_ptr<const PackedTensors> find_packed(const std::string& packing, std::span<const at::Tensor> parameters) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().entries.find(packing);
  return at == registry().entries.end() ? nullptr : find(at->second, parameters);
}

std::shared_ptr<const PackedTensors> share_packed(const std::string& packing, ParameterVersions versions,
                                                  std::span<const at::Tensor> parameters,
                                                  std::shared_ptr<const PackedTensors> made) {
  const std::lock_guard lock(registry().mutex);
  std::vector<Entry>& entries = registry().entries[packing];
  if (auto theirs = find(entries, parameters)) return theirs;
  entries.push_back({std::move(versions), made});
  return made;
}

}  // namespace vesta::runtime
