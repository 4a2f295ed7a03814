// Derived weights: tensors computed from parameters (packed, folded, converted), kept until a parameter changes.
//
// A parameter counts as unchanged while it is the same TensorImpl on the same storage with the same data pointer and
// version counter. Inference tensors have no version counter, so nothing can be kept for them: the entry point hands
// them over as plain arguments, and a set that reads one all the same is computed at every run.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <span>
#include <vector>

#include "artifact/artifact.h"

namespace vesta::runtime {

class ParameterVersion {
 public:
  explicit ParameterVersion(const at::Tensor& t);
  bool current(const at::Tensor& t) const;

 private:
  // Weak references keep the addresses from being used again by another tensor.
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const c10::TensorImpl* tensor_address_;
  const c10::StorageImpl* storage_address_;
  const void* data_;
  int64_t version_;  // -1: has no counter
};

struct DerivedSet {
  std::vector<ParameterVersion> versions;  // parallel to Artifact::derived_parameters
  std::vector<at::Tensor> tensors;         // per buffer; defined for the Derived ones that runs read
  int64_t bytes = 0;
};

// By buffer: whether a step of a run or an output reads it. Derived buffers that only derived steps read are dropped.
std::vector<bool> read_by_runs(const artifact::Artifact& a);

}  // namespace vesta::runtime
