#include "trace/tensors/view_relation.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/as_strided.h>

#include "interop/conj_neg.h"
#include "interop/torch_types.h"

namespace vesta::trace {

void apply(const std::vector<ViewRelation>& relations, std::vector<c10::IValue>& outputs, bool differentiable) {
  for (const ViewRelation& r : relations) {
    const at::Tensor t = outputs[r.output].toTensor();
    if (r.base == ViewRelation::kCountsApart) {
      outputs[r.output] = t.variable_data();
      continue;
    }
    if (r.base < 0) {
      if (t.is_view() && (!t.requires_grad() || !t.grad_fn() || !differentiable)) outputs[r.output] = t.detach();
      continue;
    }
    const at::Tensor base = outputs[static_cast<size_t>(r.base)].toTensor();
    if (base.scalar_type() != t.scalar_type() || base.is_conj() || base.is_neg() || !t.is_alias_of(base)) continue;
    if (t.is_view() && t._base().is_same(base)) continue;
    const at::Tensor view = at::as_strided(base, t.sizes(), t.strides(), t.storage_offset());
    outputs[r.output] = with_bits(view, conj_neg_of(*t.unsafeGetTensorImpl()));
  }
}

}  // namespace vesta::trace
