// Attention: its masks, and kernels of CUDA.
#include <ATen/ops/isneginf.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <vector>

#include "trace/operators/dispatch_key.h"
#include "trace/ops/rows.h"
#include "trace/tensors/known_value.h"

namespace vesta::trace {
namespace {

// The integers among the results of CUDA's attention are sizes of its operands.
void attention(Recorder& r, const Operator& op, Stack& stack) {
  const Expr queries = r.type_of(argument(op, stack, 0).toTensor()).sizes.at(2);
  const Expr keys = r.type_of(argument(op, stack, 1).toTensor()).sizes.at(2);
  record(r, op, stack);
  const size_t first = stack.size() - op.return_count;
  stack[first + 4] = boxed(r, queries);
  stack[first + 5] = boxed(r, keys);
}

enum class Mask : uint8_t { Other, All, Causal };

// All: every query attends to every key. Causal: query i attends to the keys 0 to i. `weights`: the sizes of the
// attention weights; the last two are the numbers of queries and keys.
Mask kind_of(const at::Tensor& mask, const std::vector<Expr>& weights) {
  const size_t dims = weights.size(), own = static_cast<size_t>(mask.dim());
  if (own > dims || mask.numel() == 0) return Mask::Other;
  const auto is_size = [&](size_t from_last) {
    const int64_t size = mask.size(static_cast<int64_t>(own - from_last));
    return size == 1 || weights[dims - from_last].is_constant(size);
  };
  for (size_t i = 1; i <= own; ++i)
    if (!is_size(i)) return Mask::Other;
  const bool is_bool = mask.scalar_type() == at::kBool;
  if (!is_bool && !mask.is_floating_point()) return Mask::Other;
  const at::Tensor allowed = is_bool ? mask : mask.eq(0);
  if (!is_bool && !allowed.logical_or(mask.isneginf()).all().item<bool>()) return Mask::Other;
  if (allowed.all().item<bool>()) return Mask::All;
  if (own < 2 || mask.size(-1) != mask.size(-2) || mask.size(-1) == 1) return Mask::Other;
  const int64_t length = mask.size(-1);
  const at::Tensor causal = at::ones({length, length}, at::kBool).tril();
  return allowed.eq(causal).all().item<bool>() ? Mask::Causal : Mask::Other;
}

// Replaces a mask that follows from numbers alone by no mask, or by is_causal, if it means the same: with a tensor as
// the mask, ATen chooses a slower kernel, or no fused kernel. It does not replace a mask if there is dropout, because
// each kernel draws other random numbers.
void with_mask(Recorder& r, const Operator& op, Stack& stack) {
  enum : size_t { kQuery, kKey, kValue, kMask, kDropout, kCausal };
  const auto given = [&](size_t i) -> c10::IValue& { return stack[stack.size() - op.arg_count + i]; };
  const c10::IValue& dropout = given(kDropout);
  const bool has_mask = given(kMask).isTensor() && given(kMask).toTensor().defined();
  if (has_mask && dropout.isDouble() && dropout.toDouble() == 0 && !given(kCausal).toBool()) {
    std::vector<Expr> weights = r.type_of(given(kQuery).toTensor()).sizes;
    const std::vector<Expr> keys = r.type_of(given(kKey).toTensor()).sizes;
    if (const auto mask = known_contents(r, given(kMask).toTensor()); mask && weights.size() >= 2 && keys.size() >= 2) {
      weights.back() = keys[keys.size() - 2];
      const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
      const Mask kind = kind_of(*mask, weights);
      if (kind != Mask::Other) given(kMask) = c10::IValue();
      if (kind == Mask::Causal) given(kCausal) = true;
    }
  }
  decompose(r, op, stack);
}

constexpr OperatorRow kAttentionRows[] = {
    {"aten::scaled_dot_product_attention", with_mask},
    {"aten::_scaled_dot_product_flash_attention", attention},
    {"aten::_scaled_dot_product_cudnn_attention", attention},
};

}  // namespace

std::span<const OperatorRow> attention_rows() { return kAttentionRows; }

}  // namespace vesta::trace
