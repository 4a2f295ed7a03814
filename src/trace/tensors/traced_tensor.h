// A traced tensor: a tensor without data whose operators are recorded. torch sees a tensor of the real device, dtype,
// sizes and strides. It may not give a data pointer, except of a backing (backing.h).
#pragma once

#include <c10/core/TensorImpl.h>

#include "trace/tensors/alias.h"

namespace vesta::trace {

class TracedTensorImpl final : public c10::TensorImpl {
 public:
  TracedTensorImpl(std::shared_ptr<Recorder> recorder, std::shared_ptr<Alias> alias, const graph::TensorType& type,
                   Expr offset);

  Recorder& recorder() const { return *recorder_; }
  Alias& alias() const { return *alias_; }
  const graph::TensorType& type() const { return type_; }
  Expr offset() const { return offset_; }  // in elements, from the first element of the storage's base value
  // For resize_ and similar operators: other contents and another type.
  void replace(Alias alias, const graph::TensorType& type, Expr offset);
  void set_backing(const at::Tensor& real);
  bool detached =
      false;  // made by detach() or .data, or a view of such a tensor: it requires no grad, whatever its memory holds
  // Made by .data, or a view of such a tensor: its version counter is not that of the tensor whose memory it shows.
  bool counts_apart = false;
  // The identity of this tensor, and the identity of the tensor that eager would have as its `_base` (-1: it is not a
  // view). Identities below kFirstMade are inputs of the graph.
  static constexpr int64_t kFirstMade = int64_t{1} << 32;
  int64_t identity;
  int64_t base = -1;

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool allow_metadata_change) const override;
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool allow_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<TensorImpl>& impl) override;

 protected:
  // Code that can only use plain sizes specializes the symbolic ones.
  c10::IntArrayRef sizes_custom() const override;
  c10::IntArrayRef strides_custom() const override;
  int64_t numel_custom() const override;
  // For memory of an input it counts from the start of the storage, which is a fact about the call.
  int64_t storage_offset_custom() const override { return plain(offset_in_storage()); }
  c10::SymInt sym_storage_offset_custom() const override;
  const char* tensorimpl_type_name() const override { return "vesta::TracedTensorImpl"; }

 private:
  void set_type(const graph::TensorType& type, Expr offset);
  Expr offset_in_storage() const;
  int64_t plain(Expr e) const;  // the number, which a guard fixes
  template <class Version>
  c10::intrusive_ptr<TracedTensorImpl> copy(Version&& version, bool allow_metadata_change) const;

  std::shared_ptr<Recorder> recorder_;
  std::shared_ptr<Alias> alias_;  // shallow copies share it: they are one tensor under several names
  graph::TensorType type_;
  Expr offset_;
  mutable std::vector<int64_t> plain_sizes_, plain_strides_;
};

// nullptr for a real tensor.
TracedTensorImpl* traced(const at::TensorBase& t);

}  // namespace vesta::trace
