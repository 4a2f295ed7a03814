// The version counters of inputs that a program writes where autograd does not see it (tensor.data.add_(1)). A run
// counts each write; these writes do not count once the object is gone.
#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <span>

#include "runtime/executable.h"

namespace vesta::runtime {

class KeptVersions {
 public:
  // `inputs`: indices of `in`.
  KeptVersions(const CallInputs& in, std::span<const int> inputs) {
    for (const int i : inputs)
      if (c10::TensorImpl* const impl = in.tensor(static_cast<size_t>(i)).unsafeGetTensorImpl(); !impl->is_inference())
        counters_.emplace_back(impl->version_counter(), impl->version_counter().current_version());
  }
  ~KeptVersions() {
    for (auto& [counter, version] : counters_) counter.set_version(version);
  }
  KeptVersions& operator=(KeptVersions&&) = delete;  // neither copied nor moved

 private:
  c10::SmallVector<std::pair<c10::VariableVersion, uint32_t>, 4> counters_;
};

}  // namespace vesta::runtime
