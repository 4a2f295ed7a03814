// Operators that read the contents of tensors: item, equal, and checks.
#include <ATen/ops/_assert_async.h>

#include "trace/ops/rows.h"
#include "trace/tensors/known_value.h"

namespace vesta::trace {
namespace {

void item(Recorder& r, const Operator& op, Stack& stack) {
  const auto number = known_number(r, argument(op, stack, 0).toTensor());
  if (!number) needs_value(op);
  reply(op, stack, *number);
}

// A tensor equals itself unless it holds a NaN. The program checks that when it runs, and a call whose check fails runs
// eager. For two different tensors, only their sizes can be compared.
void equal(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor a = argument(op, stack, 0).toTensor(), b = argument(op, stack, 1).toTensor();
  const graph::TensorType ta = r.type_of(a), tb = r.type_of(b);
  const auto fail = [&](const char* why) { throw NeedsValue(fmt::format("{} {}", op.handle.schema().name(), why)); };
  if (ta.device != tb.device || ta.dtype != tb.dtype) fail("compares tensors of different dtypes or devices");
  if (!same_sizes(r, ta.sizes, tb.sizes)) return reply(op, stack, false);
  if (!a.is_same(b) && read(r, r.alias_of(a)) != read(r, r.alias_of(b))) fail("needs the values of two tensors");
  if (!is_integral(ta.dtype) && ta.dtype != DType::Bool) {
    if (r.draws > 0) fail("looks for NaNs after random numbers were drawn, which eager would draw again");
    at::_assert_async(a.eq(a).all(), "a tensor that is compared with itself holds a NaN");
  }
  reply(op, stack, true);
}

// A check of contents becomes a node without results, whose call raises what eager raises.
void check_contents(Recorder& r, const Operator& op, Stack& stack) {
  const c10::ArrayRef<c10::IValue> boxed = c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.arg_count);
  std::vector<graph::Arg> args = to_args(r, op, boxed);
  r.add_node(*op.op, std::move(args), {});
  torch::jit::drop(stack, op.arg_count);
}

// A check of metadata, which eager has just passed, is left out.
void no_effect(Recorder&, const Operator& op, Stack& stack) { torch::jit::drop(stack, op.arg_count); }

constexpr OperatorRow kContentsRows[] = {
    {"aten::item", item},
    {"aten::_local_scalar_dense", item},
    {"aten::equal", equal},
    {"aten::_linalg_check_errors", check_contents},
    {"aten::_assert_async.msg", check_contents},
    {"aten::_assert_tensor_metadata", no_effect},
};

}  // namespace

std::span<const OperatorRow> contents_rows() { return kContentsRows; }

}  // namespace vesta::trace
