// Indexing whose result or whose checks depend on the contents of index tensors.
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/arange.h>

#include "trace/ops/rows.h"
#include "trace/trace.h"

namespace vesta::trace {
namespace {

void index(Recorder& r, const Operator& op, Stack& stack) {
  for (const auto& e : argument(op, stack, 1).toListRef())
    if (e.isTensor() && e.toTensor().defined() &&
        (e.toTensor().scalar_type() == at::kBool || e.toTensor().scalar_type() == at::kByte))
      throw NeedsValue("indexing with a mask needs the mask's values");
  record(r, op, stack);
}

// ATen's kernel reads its argument to check it. This one adds checks to the graph, with the same messages.
void one_hot(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const int64_t classes = argument(op, stack, 1).toInt();
  if (classes <= 0) throw NeedsValue("one_hot without num_classes needs the largest class");
  if (self.scalar_type() != at::kLong)
    VESTA_UNSUPPORTED("one_hot does not support {}", c10::toString(self.scalar_type()));
  at::_assert_async(self.ge(0).all(), "Class values must be non-negative.");
  at::_assert_async(self.lt(classes).all(), "Class values must be smaller than num_classes.");
  reply(op, stack, self.unsqueeze(-1).eq(at::arange(classes, self.options())).to(at::kLong));
}

constexpr OperatorRow kIndexingRows[] = {
    {"aten::index.Tensor", index},
    {"aten::one_hot", one_hot},
    {.name = "aten::nonzero_static", .meta_differs = true, .cpu_only = true},
    {.name = "aten::_embedding_bag", .meta_differs = true},
    {.name = "aten::_embedding_bag_forward_only", .meta_differs = true},
};

}  // namespace

std::span<const OperatorRow> indexing_rows() { return kIndexingRows; }

}  // namespace vesta::trace
