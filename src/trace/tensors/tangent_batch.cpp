#include "trace/tensors/tangent_batch.h"

#include <ATen/LegacyBatchedTensorImpl.h>

namespace vesta::trace {

at::Tensor in_tangent_batch(const at::Tensor& t) {
  const at::BatchedTensorImpl* batch = at::maybeGetBatchedImpl(t);
  return batch ? batch->value() : at::Tensor();
}

}  // namespace vesta::trace
