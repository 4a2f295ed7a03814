// Prepacked constants of the whole process: programs that make the same constants from the same parameters share them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/totals.h"

namespace vesta::runtime {

// A parameter counts as unchanged while it is the same TensorImpl on the same storage with the same data pointer and
// version counter. Inference tensors have no version counter, so nothing may be kept for them: the entry point passes
// them as plain arguments.
class ParameterVersion {
 public:
  explicit ParameterVersion(const at::Tensor& t);
  bool current(const at::Tensor& t) const;
  bool is_known() const { return version_ >= 0; }  // false: the parameter has no version counter

 private:
  // Weak references keep other tensors from using the addresses again.
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const c10::TensorImpl* tensor_address_;
  const c10::StorageImpl* storage_address_;
  const void* data_;
  int64_t version_;  // -1: it has no counter
};

// What one packing (artifact/packing.h) makes, in the order of Packing::kept.
class PackedTensors {
 public:
  // `stream`: the current one of a GPU, which all work on the tensors has left.
  PackedTensors(std::string packing, std::vector<at::Tensor> tensors, int64_t bytes, void* stream);
  ~PackedTensors();
  PackedTensors(const PackedTensors&) = delete;

  std::span<const at::Tensor> tensors() const { return tensors_; }
  int64_t bytes() const { return bytes_; }
  // The current stream of the tensors' GPU is going to read them: their memory is not used again before it has.
  void read_on(void* stream) const;

 private:
  const std::string packing_;
  const std::vector<at::Tensor> tensors_;
  const int64_t bytes_;
  const totals::KeptBytes held_;
  mutable std::mutex mutex_;
  mutable std::vector<void*> streams_;
};

// Parameters of one packing at the time when it was made or is needed: one version and one tensor each.
using ParameterVersions = std::vector<ParameterVersion>;

// The tensors that `packing` made from these parameters, if a program still holds them.
std::shared_ptr<const PackedTensors> find_packed(const std::string& packing, std::span<const at::Tensor> parameters);
// Lets others find `made`. If others have made the same meanwhile, returns theirs.
std::shared_ptr<const PackedTensors> share_packed(const std::string& packing, ParameterVersions versions,
                                                  std::span<const at::Tensor> parameters,
                                                  std::shared_ptr<const PackedTensors> made);

}  // namespace vesta::runtime
