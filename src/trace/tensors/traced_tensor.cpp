#include "trace/tensors/traced_tensor.h"

#include <c10/core/TensorOptions.h>

#include "base/check.h"
#include "interop/torch_types.h"
#include "trace/gradients/gradients.h"
#include "trace/operators/dispatch_key.h"
#include "trace/recorder.h"
#include "trace/tensors/sym_node.h"

namespace vesta::trace {
namespace {

c10::DispatchKeySet keys(const graph::TensorType& type, c10::Device device) {
  const auto backend = c10::computeDispatchKey(to_scalar_type(type.dtype), c10::Layout::Strided, device);
  return c10::DispatchKeySet{backend, trace_key()};
}

bool is_static(const graph::TensorType& t) {
  const auto constant = [](const Expr& e) { return e.is_constant(); };
  return std::ranges::all_of(t.sizes, constant) && std::ranges::all_of(t.strides, constant);
}

}  // namespace

TracedTensorImpl::TracedTensorImpl(std::shared_ptr<Recorder> recorder, std::shared_ptr<Alias> alias,
                                   const graph::TensorType& type, Expr offset)
    : TensorImpl(keys(type, to_torch(type.device)), c10::scalarTypeToTypeMeta(to_scalar_type(type.dtype)),
                 to_torch(type.device)),
      identity(kFirstMade + recorder->made++),
      recorder_(std::move(recorder)),
      alias_(std::move(alias)) {
  storage_access_should_throw_ = true;
  set_type(type, offset);
}

void TracedTensorImpl::set_type(const graph::TensorType& type, Expr offset) {
  type_ = type;
  offset_ = offset;
  _set_conj(alias_->conj_neg.conj);
  _set_neg(alias_->conj_neg.neg);
  set_custom_sizes_strides(alias_->storage->input >= 0 ? SizesStridesPolicy::CustomSizes : SizesStridesPolicy::Default);
  const size_t n = type.dim();
  // torch lets a tensor that has had symbolic sizes have symbolic ones only, which may be constants.
  if (is_static(type) && offset.is_constant() && !has_symbolic_sizes_strides_) {
    c10::SmallVector<int64_t, 8> sizes(n), strides(n);
    for (size_t i = 0; i < n; ++i) {
      sizes[i] = type.sizes[i].constant();
      strides[i] = type.strides[i].constant();
    }
    set_sizes_and_strides(c10::IntArrayRef(sizes), c10::IntArrayRef(strides), offset.constant());
    return;
  }
  const std::shared_ptr<GuardSink> sink = recorder_;
  c10::SmallVector<c10::SymInt, 8> sizes(n), strides(n);
  for (size_t i = 0; i < n; ++i) {
    sizes[i] = to_sym_int(sink, type.sizes[i]);
    strides[i] = to_sym_int(sink, type.strides[i]);
  }
  set_sizes_and_strides(c10::SymIntArrayRef(sizes), c10::SymIntArrayRef(strides), to_sym_int(sink, offset));
}

void TracedTensorImpl::replace(Alias alias, const graph::TensorType& type, Expr offset) {
  if (alias_->storage->is_given) VESTA_UNSUPPORTED("a tensor whose data the program has replaced gets another size");
  *alias_ = std::move(alias);
  plain_sizes_.clear();
  plain_strides_.clear();
  set_type(type, offset);
}

void TracedTensorImpl::set_backing(const at::Tensor& real) {
  alias_->storage->backing = real;
  storage_ = real.storage();
  storage_access_should_throw_ = false;
}

template <class Version>
c10::intrusive_ptr<TracedTensorImpl> TracedTensorImpl::copy(Version&& version, bool allow_metadata_change) const {
  auto out = c10::make_intrusive<TracedTensorImpl>(recorder_, alias_, type_, offset_);
  if (alias_->storage->backing.defined()) out->set_backing(alias_->storage->backing);
  if (!out->is_inference()) out->set_version_counter(std::forward<Version>(version));
  out->set_allow_tensor_metadata_change(allow_metadata_change);
  if (is_wrapped_number()) out->set_wrapped_number(true);
  out->detached = true;  // and not a view
  return out;
}

c10::intrusive_ptr<c10::TensorImpl> TracedTensorImpl::shallow_copy_and_detach(const c10::VariableVersion& version,
                                                                              bool allow_metadata_change) const {
  return copy(version, allow_metadata_change);
}
// A counter that is handed over is new: this is how tensor.data asks for it. The tensor itself may get other memory.
c10::intrusive_ptr<c10::TensorImpl> TracedTensorImpl::shallow_copy_and_detach(c10::VariableVersion&& version,
                                                                              bool allow_metadata_change) const {
  auto out = copy(std::move(version), allow_metadata_change);
  out->alias_ = std::make_shared<Alias>(*alias_);
  out->alias_->made_storage = false;
  out->counts_apart = true;
  return out;
}

void TracedTensorImpl::shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) {
  auto* other = dynamic_cast<TracedTensorImpl*>(impl.get());
  if (!other) VESTA_UNSUPPORTED("the data of a tensor in the program is replaced by that of an existing tensor");
  if (alias_->storage->input >= 0) VESTA_UNSUPPORTED("the data of an input is replaced (tensor.data = ...)");
  if (recorder_->gradients) recorder_->gradients->history.part();
  alias_ = other->alias_;
  plain_sizes_.clear();
  plain_strides_.clear();
  set_type(other->type_, other->offset_);
}

int64_t TracedTensorImpl::plain(Expr e) const {
  return e.is_constant() ? e.constant() : recorder_->guards().specialize(e);
}

c10::IntArrayRef TracedTensorImpl::sizes_custom() const {
  if (!has_symbolic_sizes_strides_) return sizes_and_strides_.sizes_arrayref();
  if (plain_sizes_.empty())
    for (Expr e : type_.sizes) plain_sizes_.push_back(plain(e));
  return plain_sizes_;
}

c10::IntArrayRef TracedTensorImpl::strides_custom() const {
  if (!has_symbolic_sizes_strides_) return sizes_and_strides_.strides_arrayref();
  if (plain_strides_.empty())
    for (Expr e : type_.strides) plain_strides_.push_back(plain(e));
  return plain_strides_;
}

int64_t TracedTensorImpl::numel_custom() const { return plain(graph::numel(type_)); }

Expr TracedTensorImpl::offset_in_storage() const {
  const int input = alias_->storage->input;
  if (input < 0) return offset_;
  const DType stored = alias_->storage->initial->type.dtype;
  return convert_offset(recorder_->begin_in_storage(input), stored, type_.dtype) + offset_;
}

c10::SymInt TracedTensorImpl::sym_storage_offset_custom() const { return to_sym_int(recorder_, offset_in_storage()); }

TracedTensorImpl* traced(const at::TensorBase& t) {
  if (!t.defined() || !t.unsafeGetTensorImpl()->key_set().has(trace_key())) return nullptr;
  return dynamic_cast<TracedTensorImpl*>(t.unsafeGetTensorImpl());
}

}  // namespace vesta::trace
