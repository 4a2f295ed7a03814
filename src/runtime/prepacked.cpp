#include "runtime/prepacked.h"

#include "artifact/uses.h"

namespace vesta::runtime {

namespace {
int64_t version_of(const at::Tensor& t) { return t.is_inference() ? -1 : static_cast<int64_t>(t._version()); }
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

std::vector<bool> read_by_runs(const artifact::Artifact& a) {
  std::vector<bool> read(a.buffers.size());
  const auto note = [&](int buffer) {
    if (buffer >= 0) read[buffer] = true;
  };
  for (const artifact::Step& s : a.steps) artifact::for_each_needed(s, note);
  for (const artifact::Output& o : a.outputs) note(o.view.buffer);
  return read;
}

}  // namespace vesta::runtime
