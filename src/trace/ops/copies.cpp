// Copies: constants that enter the program, and copy_.
#include "graph/rules/broadcast.h"
#include "interop/torch_types.h"
#include "trace/ops/rows.h"
#include "trace/tensors/overlap.h"

namespace vesta::trace {
namespace {

// A constant of the program. The program may write to it, so each run gets its own copy.
void lift_fresh_copy(Recorder& r, const Operator& op, Stack& stack) {
  reply(op, stack, r.fresh(r.emit("aten::clone", {r.value_of(argument(op, stack, 0).toTensor())})));
}

// Copies as lift_fresh_copy does, unless the tensor is the trace's own already.
void lift_fresh(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor t = argument(op, stack, 0).toTensor();
  const TracedTensorImpl* impl = traced(t);
  // In a trace with gradients a literal of the program is an input.
  const bool literal = impl && r.is_input_fake(impl) &&
                       r.graph().inputs[static_cast<size_t>(impl->identity)].kind == graph::InputKind::Parameter;
  if ((impl && !literal) || wrapped_number(t)) return unchanged(r, op, stack);
  lift_fresh_copy(r, op, stack);
  // No other code can change the literal, so its number stays known.
  if (!impl && t.dim() == 0 && t.device().is_cpu()) r.known.emplace(r.value_of(stack.back().toTensor()), t);
}

void copy_in_place(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor(), source = argument(op, stack, 1).toTensor();
  if (self.device() != source.device() && source.dim() != 0) VESTA_UNSUPPORTED("copy_ between two devices");
  graph::Value* value;
  if (const auto number = wrapped_number(source)) {
    value = r.emit("aten::full", {graph::IntList{}, *number}, {{"dtype", to_dtype(source.scalar_type())}});
  } else {
    value = r.value_of(source);
  }
  refuse_overlap(r, self, source, true);
  const auto want = r.type_of(self);
  VESTA_USER_CHECK(graph::broadcast(r.guards(), want.sizes, value->type.sizes).size() == want.dim(),
                   "copy_: the source does not broadcast to the destination");
  write_tensor(r, self, value);
  reply(op, stack, self);
}

constexpr OperatorRow kCopyRows[] = {
    {"aten::lift", unchanged},
    {"aten::lift_fresh", lift_fresh},
    {"aten::lift_fresh_copy", lift_fresh_copy},
    {"aten::copy_", copy_in_place},
};

}  // namespace

std::span<const OperatorRow> copy_rows() { return kCopyRows; }

}  // namespace vesta::trace
