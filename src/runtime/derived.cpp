#include "runtime/derived.h"

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
  auto note = [&](int buffer) {
    if (buffer >= 0) read[buffer] = true;
  };
  for (const artifact::Step& s : a.steps) {
    if (const auto* l = std::get_if<artifact::Launch>(&s)) {
      for (int b : l->buffers) note(b);
    } else if (const auto* e = std::get_if<artifact::Extern>(&s)) {
      for (const artifact::Arg& arg : e->args) {
        if (const auto* v = std::get_if<artifact::View>(&arg.value)) note(v->buffer);
        if (const auto* list = std::get_if<std::vector<artifact::View>>(&arg.value)) {
          for (const artifact::View& v : *list) note(v.buffer);
        }
      }
    } else if (const auto* assertion = std::get_if<artifact::Assert>(&s)) {
      note(assertion->flag);
    } else {
      note(std::get<artifact::CopyBack>(s).from.buffer);
    }
  }
  for (const artifact::Output& o : a.outputs) note(o.view.buffer);
  return read;
}

}  // namespace vesta::runtime
