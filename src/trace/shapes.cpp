#include "trace/shapes.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "base/check.h"
#include "trace/dispatch_key.h"
#include "trace/meta_functions.h"
#include "trace/operator_table.h"
#include "trace/recorder.h"
#include "trace/torch_types.h"

namespace vesta::trace {
namespace {

int64_t specialize(Recorder& r, Expr e) { return e.is_constant() ? e.constant() : r.guards().specialize(e); }

at::Tensor meta_like(Recorder& r, const at::Tensor& t) {
  if (!t.defined()) return t;
  if (t.unsafeGetTensorImpl()->is_wrapped_number() && !traced(t) && t.device().is_cpu()) return t;
  const graph::TensorType type = r.type_of(t);
  c10::SmallVector<int64_t, 8> sizes, strides;
  for (Expr e : type.sizes) sizes.push_back(specialize(r, e));
  for (Expr e : type.strides) strides.push_back(specialize(r, e));
  at::Tensor out = at::detail::empty_strided_meta(sizes, strides, to_scalar_type(type.dtype));
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) out.unsafeGetTensorImpl()->set_wrapped_number(true);
  return out;
}

// The device results live on, as ATen's kernels choose it: that of the tensors, 0-d CPU tensors yielding to others.
c10::Device result_device(const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  std::optional<c10::Device> device;
  const auto see = [&](const at::Tensor& t) {
    if (!t.defined()) return;
    if (!device || (device->is_cpu() && t.dim() > 0)) device = t.device();
  };
  for (size_t i = 0; i < boxed.size(); ++i) {
    if (boxed[i].isDevice()) return boxed[i].toDevice();
    if (boxed[i].isTensor()) see(boxed[i].toTensor());
    if (boxed[i].isList())
      for (const auto& e : boxed[i].toListRef())
        if (e.isTensor()) see(e.toTensor());
  }
  (void)op;
  return device.value_or(c10::Device(c10::DeviceType::CPU));
}

void append(const at::Tensor& t, c10::Device device, std::vector<graph::TensorType>& types) {
  graph::TensorType type;
  type.dtype = DType::Other;
  if (t.defined()) {
    type.dtype = to_dtype(t.scalar_type());
    if (type.dtype == DType::Other) VESTA_UNSUPPORTED("a result of type {}", c10::toString(t.scalar_type()));
    type.device = to_device(device);
    for (const int64_t s : t.sizes()) type.sizes.emplace_back(s);
    for (const int64_t s : t.strides()) type.strides.emplace_back(s);
  }
  types.push_back(std::move(type));
}

std::vector<graph::TensorType> by_meta(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  torch::jit::Stack stack;
  stack.reserve(boxed.size());
  for (const c10::IValue& v : boxed) {
    if (v.isTensor()) {
      stack.emplace_back(meta_like(r, v.toTensor()));
    } else if (v.isTensorList()) {
      std::vector<at::Tensor> list = v.toTensorVector();
      for (auto& t : list) t = meta_like(r, t);
      stack.emplace_back(c10::List<at::Tensor>(list));
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : v.toOptionalTensorVector())
        list.push_back(t && t->defined() ? std::optional<at::Tensor>(meta_like(r, *t)) : std::nullopt);
      stack.emplace_back(std::move(list));
    } else if (v.isSymInt()) {
      stack.emplace_back(specialize(r, to_expr(v.toSymInt())));
    } else if (v.isSymIntList()) {
      c10::List<int64_t> list;
      for (const auto& s : v.toSymIntVector()) list.push_back(specialize(r, to_expr(s)));
      stack.emplace_back(std::move(list));
    } else if (v.isDevice()) {
      stack.emplace_back(c10::Device(c10::DeviceType::Meta));
    } else {
      stack.push_back(v);
    }
  }
  if (op.factory)
    for (size_t i = 0; i < stack.size(); ++i)
      if (op.handle.schema().arguments()[i].name() == "device") stack[i] = c10::Device(c10::DeviceType::Meta);

  const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
  try {
    if (!call_meta_function(op.handle, stack)) op.handle.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    VESTA_UNSUPPORTED("{} has no shape rule", op.op->name);
  }
  const c10::Device device = result_device(op, boxed);
  std::vector<graph::TensorType> types;
  for (const c10::IValue& v : stack) {
    if (v.isTensor()) append(v.toTensor(), device, types);
    else if (v.isNone()) append(at::Tensor(), device, types);
    else
      for (const auto& e : v.toListRef()) append(e.toTensor(), device, types);
  }
  return types;
}

}  // namespace

bool has_rule(const Operator& op) {
  return op.op && op.op->row && (op.op->row->shape || op.op->family() == graph::Family::Pointwise);
}

std::vector<graph::TensorType> result_types(Recorder& r, const Operator& op, const std::vector<graph::Arg>& args,
                                            c10::ArrayRef<c10::IValue> boxed) {
  if (has_rule(op)) return graph::infer_types(*op.op, args, r.guards());
  return by_meta(r, op, boxed);
}

}  // namespace vesta::trace
