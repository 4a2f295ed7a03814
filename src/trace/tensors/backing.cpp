#include "trace/tensors/backing.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

#include "interop/torch_types.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

constexpr size_t kLargest = 1 << 16;  // bytes
constexpr size_t kRecognisable = 16;  // a shorter pattern could occur as a value

unsigned char pattern(size_t i) { return static_cast<unsigned char>((i * 167 + 89) ^ (i >> 8)); }

}  // namespace

void give_backing(TracedTensorImpl& t) {
  const graph::TensorType& type = t.type();
  if (type.device.type != DeviceType::CPU || t.has_symbolic_sizes_strides()) return;
  const size_t bytes = static_cast<size_t>(t.numel()) * t.itemsize();
  if (bytes == 0 || bytes > kLargest) return;
  at::Tensor real = at::detail::empty_strided_cpu(t.sizes(), t.strides(), to_scalar_type(type.dtype));
  auto* p = static_cast<unsigned char*>(real.mutable_data_ptr());
  for (size_t i = 0; i < bytes; ++i) p[i] = pattern(i);
  t.set_backing(real);
}

void take_backing(Recorder& r, Storage& s) {
  if (s.version != 0) return;
  const auto* p = static_cast<const unsigned char*>(s.backing.const_data_ptr());
  const size_t bytes = s.backing.nbytes();
  bool painted = bytes >= kRecognisable;
  for (size_t i = 0; painted && i < bytes; ++i) painted = p[i] == pattern(i);
  if (painted) return;
  at::Tensor constant = at::detail::empty_strided_cpu(s.backing.sizes(), s.backing.strides(), s.backing.scalar_type());
  std::memcpy(constant.mutable_data_ptr(), p, bytes);
  s.base = r.add_input(constant, static_type(constant), graph::InputKind::Parameter, "constant").value;
  ++s.version;
  forbid_backing(s);
}

void forbid_backing(Storage& s) {
  auto* impl = s.backing.storage().unsafeGetStorageImpl();
  impl->set_throw_on_mutable_data_ptr();
  impl->release_data_and_set_meta_custom_data_ptr_error_msg_("the memory of a traced tensor is read");
  s.backing.reset();
}

}  // namespace vesta::trace
