#include "trace/tensors/overlap.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::trace {
namespace {

bool pointwise(const Operator& op) {
  return op.functional->op && op.functional->op->family() == graph::Family::Pointwise;
}

// The elements from the first to one past the last, in the storage.
std::pair<int64_t, int64_t> reach(const graph::TensorType& t, Expr offset) {
  const int64_t first = hint(offset);
  return {first, first + hint(graph::numel(t))};
}

}  // namespace

void refuse_overlap(Recorder& r, const at::Tensor& target, const at::Tensor& source, bool same_allowed) {
  if (!target.defined() || !source.defined() || !traced(target) || !traced(source)) return;
  if (r.alias_of(target).storage != r.alias_of(source).storage) return;
  const graph::TensorType a = r.type_of(target), b = r.type_of(source);
  const Expr from = r.offset_of(target), other = r.offset_of(source);
  if (same_allowed && a == b && from == other) return;
  // Eager does not examine tensors with gaps more closely.
  if (!graph::is_non_overlapping_and_dense(a) || !graph::is_non_overlapping_and_dense(b)) return;
  const auto [begin, end] = reach(a, from);
  const auto [other_begin, other_end] = reach(b, other);
  if (begin < other_end && other_begin < end)
    VESTA_UNSUPPORTED("a write to a tensor that shares memory with another argument");
}

// Refuses arguments that share memory, for an operator that gets copies of the arguments it writes.
void refuse_shared(Recorder& r, const Operator& op, const torch::jit::Stack& stack) {
  const size_t base = stack.size() - op.arg_count;
  std::vector<std::pair<const Storage*, bool>> seen;  // with whether it is written
  const auto see = [&](const at::Tensor& t, bool is_written) {
    if (!t.defined() || !traced(t)) return;
    const Storage* own = r.alias_of(t).storage.get();
    for (const auto& [other, was_written] : seen) {
      if (other == own && (is_written || was_written))
        VESTA_UNSUPPORTED("{} writes a tensor that shares memory with another argument", op.handle.schema().name());
    }
    seen.emplace_back(own, is_written);
  };
  for (size_t i = 0; i < op.arg_count; ++i) {
    const bool is_written = std::find(op.mutated.begin(), op.mutated.end(), static_cast<int>(i)) != op.mutated.end();
    const c10::IValue& v = stack[base + i];
    if (v.isTensor()) see(v.toTensor(), is_written);
    if (!v.isList()) continue;
    for (const c10::IValue& e : v.toListRef())
      if (e.isTensor()) see(e.toTensor(), is_written);
  }
}

void refuse_overlaps(Recorder& r, const Operator& op, const torch::jit::Stack& stack) {
  if (op.copies_arguments) return refuse_shared(r, op, stack);
  const size_t base = stack.size() - op.arg_count;
  const bool same_allowed = pointwise(op);
  for (const int m : op.mutated) {
    const c10::IValue& target = stack[base + static_cast<size_t>(m)];
    if (!target.isTensor()) continue;
    for (size_t i = 0; i < op.arg_count; ++i) {
      const bool also_written =
          std::find(op.mutated.begin(), op.mutated.end(), static_cast<int>(i)) != op.mutated.end();
      if (also_written && static_cast<int>(i) <= m) continue;  // the argument itself, or a pair that was checked
      const c10::IValue& source = stack[base + i];
      if (source.isTensor()) {
        refuse_overlap(r, target.toTensor(), source.toTensor(), same_allowed && !also_written);
      } else if (source.isList()) {
        for (const c10::IValue& e : source.toListRef())
          if (e.isTensor()) refuse_overlap(r, target.toTensor(), e.toTensor(), same_allowed);
      }
    }
  }
}

}  // namespace vesta::trace
