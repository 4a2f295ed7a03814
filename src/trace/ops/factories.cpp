// Memory of tensors: empty, set_, resize_; random numbers for given tensors.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_assert_async.h>
#include <ATen/ops/empty.h>

#include "graph/rules/broadcast.h"
#include "trace/operators/zero_tensors.h"
#include "trace/ops/rows.h"
#include "trace/tensors/backing.h"

namespace vesta::trace {
namespace {

void empty(Recorder& r, const Operator& op, Stack& stack) {
  record(r, op, stack);
  give_backing(*traced(stack.back().toTensor()));
}

// torch.normal(mean, std) of tensors: a CPU draws what a normal distribution of 0 and 1 gives, and scales it.
void normal(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor mean = argument(op, stack, 0).toTensor(), std = argument(op, stack, 1).toTensor();
  for (const at::Tensor& t : {mean, std})
    if (!t.device().is_cpu() || !t.is_floating_point() || t.scalar_type() != mean.scalar_type())
      VESTA_UNSUPPORTED("{} draws random numbers in a way Vesta does not know", op.handle.schema().name());
  if (!argument(op, stack, 2).isNone()) VESTA_UNSUPPORTED("{} with a generator", op.handle.schema().name());
  at::_assert_async(std.ge(0).all(), "normal expects all elements of std >= 0.0");
  const at::Tensor drawn = at::empty_symint(at::infer_size_symint(mean.sym_sizes(), std.sym_sizes()), mean.options());
  reply(op, stack, drawn.normal_(0, 1).mul_(std).add_(mean));
}

constexpr const char* kOtherMemory = "replaces the memory of a tensor";

// Dynamo writes `module.weight = module.weight.to(dtype)` as set_, even where it changes nothing.
void set_source(Recorder&, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  if (!argument(op, stack, 1).toTensor().is_same(self))
    VESTA_UNSUPPORTED("{} {}", op.handle.schema().name(), kOtherMemory);
  reply(op, stack, self);
}

// The first elements of memory that no other tensor views. nullptr: not possible.
graph::Value* shrunk(Recorder& r, const Alias& alias, const graph::IntList& sizes) {
  const graph::TensorType& old = alias.storage->base->type;
  const Expr count = graph::product(sizes);
  const Expr had = graph::numel(old);
  if (alias.storage.use_count() != 1 || !graph::is_contiguous(r.guards(), old)) return nullptr;
  const bool known = count.is_constant() && had.is_constant();
  if (known ? had.constant() < count.constant() : r.guards().less(had, count)) return nullptr;
  graph::Value* flat = r.emit("aten::view", {alias.storage->base, graph::IntList{had}});
  flat = r.emit("aten::slice.Tensor", {flat, Expr(0), Expr(0), count, Expr(1)});
  return r.emit("aten::clone", {r.emit("aten::view", {flat, sizes})});
}

void resize(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  const auto type = r.type_of(self);
  const graph::IntList sizes = to_int_list(argument(op, stack, 1));
  if (!argument(op, stack, 2).isNone()) VESTA_UNSUPPORTED("{} changes the memory format", op.handle.schema().name());
  if (sizes == type.sizes) return reply(op, stack, self);
  TracedTensorImpl* impl = traced(self);
  graph::Value* value = nullptr;
  if (impl && !impl->alias().view && impl->alias().storage->input < 0 && !impl->alias().conj_neg.any()) {
    value = graph::is_empty(r.guards(), type.sizes)
                ? r.emit("aten::empty.memory_format", {sizes}, {{"dtype", type.dtype}, {"device", type.device}})
                : shrunk(r, impl->alias(), sizes);
  }
  if (!value) VESTA_UNSUPPORTED("{} changes a tensor's size", op.handle.schema().name());
  auto storage = std::make_shared<Storage>();
  storage->base = value;
  impl->replace(Alias{.storage = std::move(storage), .value = value}, value->type, 0);
  reply(op, stack, self);
}

void resize_as(Recorder& r, const Operator& op, Stack& stack) {
  const at::Tensor self = argument(op, stack, 0).toTensor();
  static const Operator* by_size = find_operator("aten::resize_", "");
  Stack inner{self};
  inner.emplace_back(argument(op, stack, 1).toTensor().sym_sizes());
  inner.push_back(argument(op, stack, 2));
  resize(r, *by_size, inner);
  reply(op, stack, self);
}

constexpr OperatorRow kFactoryRows[] = {
    {"aten::empty.memory_format", empty},
    {"aten::_efficientzerotensor", make_zero_tensor},
    {"aten::normal.Tensor_Tensor", normal},
    {.name = "aten::set_", .refusal = kOtherMemory},
    {.name = "aten::set_.source_Storage", .refusal = kOtherMemory},
    {.name = "aten::set_.source_Storage_storage_offset", .refusal = kOtherMemory},
    {"aten::set_.source_Tensor", set_source},
    {.name = "aten::set_.source_Tensor_storage_offset", .refusal = kOtherMemory},
    {.name = "aten::_compute_linear_combination.out", .refusal = "reads its out= tensor"},
    {"aten::resize_", resize},
    {"aten::resize_as_", resize_as},
};

}  // namespace

std::span<const OperatorRow> factory_rows() { return kFactoryRows; }

}  // namespace vesta::trace
