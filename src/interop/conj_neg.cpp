#include "interop/conj_neg.h"

#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>

namespace vesta {

at::Tensor with_bits(const at::Tensor& t, ConjNegBits bits) {
  const at::Tensor out = bits.conj ? at::_conj(t) : t;
  return bits.neg ? at::_neg_view(out) : out;
}

}  // namespace vesta
