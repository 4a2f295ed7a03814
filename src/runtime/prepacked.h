// Prepacked constants: tensors computed from parameters (packed, folded, converted) and kept until a parameter changes.
//
// A parameter counts as unchanged while it is the same TensorImpl on the same storage with the same data pointer and
// version counter. Inference tensors have no version counter, so nothing may be kept for them: the entry point passes
// them as plain arguments. If a set of prepacked constants reads one nevertheless, it is computed at every run.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <vector>

#include "artifact/artifact.h"
#include "base/totals.h"

namespace vesta::runtime {

class ParameterVersion {
 public:
  explicit ParameterVersion(const at::Tensor& t);
  bool current(const at::Tensor& t) const;

 private:
  // Weak references keep other tensors from using the addresses again.
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
  const c10::TensorImpl* tensor_address_;
  const c10::StorageImpl* storage_address_;
  const void* data_;
  int64_t version_;  // -1: it has no counter
};

struct PrepackedSet {
  std::vector<ParameterVersion> versions;  // parallel to Artifact::prepacked_parameters
  std::vector<at::Tensor> tensors;         // per buffer; defined for the Prepacked ones that runs read
  int64_t bytes = 0;
  totals::KeptBytes held{totals::Memory::PackedWeights};
};

// By buffer: whether a step of a run or an output reads it. Prepacked buffers that only prepacked steps read are
// dropped.
std::vector<bool> read_by_runs(const artifact::Artifact& a);

}  // namespace vesta::runtime
