#include "trace/tensors/shapes.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include "base/check.h"
#include "interop/torch_types.h"
#include "trace/operators/arguments.h"
#include "trace/operators/dispatch_key.h"
#include "trace/operators/operator_table.h"
#include "trace/ops/rows.h"
#include "trace/recorder.h"

namespace vesta::trace {
namespace {

int64_t specialize(Recorder& r, Expr e) { return e.is_constant() ? e.constant() : r.guards().specialize(e); }

struct Shape {
  c10::SmallVector<int64_t, 8> sizes, strides;
};
Shape plain_shape(Recorder& r, const graph::TensorType& type) {
  Shape s;
  for (Expr e : type.sizes) s.sizes.push_back(specialize(r, e));
  for (Expr e : type.strides) s.strides.push_back(specialize(r, e));
  return s;
}

using MakeTensor = at::Tensor (*)(Recorder& r, const graph::TensorType& type);

at::Tensor make_meta(Recorder& r, const graph::TensorType& type) {
  const Shape s = plain_shape(r, type);
  return at::detail::empty_strided_meta(s.sizes, s.strides, to_scalar_type(type.dtype));
}

// Sample contents: zeros for integers (any tensor may be indexed by them), ones for the rest.
at::Tensor make_sample(Recorder& r, const graph::TensorType& type) {
  constexpr int64_t kLargest = 1 << 24;
  const Shape s = plain_shape(r, type);
  int64_t elements = 1;
  for (size_t d = 0; d < s.sizes.size(); ++d) elements += std::max<int64_t>(s.sizes[d] - 1, 0) * s.strides[d];
  if (type.device.type != DeviceType::CPU || elements > kLargest)
    VESTA_UNSUPPORTED("an operator without a shape rule, on large tensors or another device than the CPU");
  const at::Tensor memory = at::detail::empty_cpu({elements}, to_scalar_type(type.dtype), {}, {}, {}, {});
  const bool ones = is_float(type.dtype) || is_complex(type.dtype);
  memory.fill_(ones ? 1 : 0);
  return memory.as_strided(s.sizes, s.strides);
}

at::Tensor like(Recorder& r, const at::Tensor& t, MakeTensor make) {
  const bool number = t.unsafeGetTensorImpl()->is_wrapped_number();
  if (number && !traced(t) && t.device().is_cpu()) return t;
  at::Tensor out = make(r, r.type_of(t));
  if (number) out.unsafeGetTensorImpl()->set_wrapped_number(true);
  return out;
}

// The arguments, with tensors made by `make` and with plain integers.
torch::jit::Stack plain_arguments(Recorder& r, c10::ArrayRef<c10::IValue> boxed, MakeTensor make) {
  torch::jit::Stack stack;
  stack.reserve(boxed.size());
  for (const c10::IValue& v : boxed) {
    if (v.isSymInt()) {
      stack.emplace_back(specialize(r, to_expr(v.toSymInt())));
    } else if (v.isSymIntList()) {
      c10::List<int64_t> list;
      for (const auto& s : v.toSymIntVector()) list.push_back(specialize(r, to_expr(s)));
      stack.emplace_back(std::move(list));
    } else {
      stack.push_back(v);
      replace_tensors(stack.back(), [&](const at::Tensor& t) { return like(r, t, make); });
    }
  }
  return stack;
}

// The device of the results, as ATen's kernels choose it: the device of the tensors, where other tensors take
// precedence over 0-d CPU tensors.
c10::Device result_device(c10::ArrayRef<c10::IValue> boxed) {
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
  return device.value_or(c10::Device(c10::DeviceType::CPU));
}

void append(const at::Tensor& t, c10::Device device, std::vector<graph::TensorType>& types) {
  graph::TensorType type;
  type.dtype = DType::Other;
  if (t.defined()) {
    if (t.layout() != at::kStrided) VESTA_UNSUPPORTED("a result whose layout is not strided");
    type.dtype = to_dtype(t.scalar_type());
    if (type.dtype == DType::Other) VESTA_UNSUPPORTED("a result of type {}", c10::toString(t.scalar_type()));
    type.device = to_device(device);
    for (const int64_t s : t.sizes()) type.sizes.emplace_back(s);
    for (const int64_t s : t.strides()) type.strides.emplace_back(s);
  }
  types.push_back(std::move(type));
}

std::vector<graph::TensorType> types_of(const torch::jit::Stack& results, c10::Device device) {
  std::vector<graph::TensorType> types;
  for (const c10::IValue& v : results) {
    if (v.isTensor())
      append(v.toTensor(), device, types);
    else if (v.isNone())
      append(at::Tensor(), device, types);
    else
      for (const auto& e : v.toListRef()) append(e.toTensor(), device, types);
  }
  return types;
}

// Runs ATen's kernel on sample contents. Shapes do not depend on contents: operators whose shapes do have a tag and do
// not get here. ATen guarantees this, other libraries may not.
std::vector<graph::TensorType> by_execution(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  if (op.custom) VESTA_UNSUPPORTED("{} has no shape rule", op.op->name);
  const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
  torch::jit::Stack stack = plain_arguments(r, boxed, make_sample);
  try {
    op.handle.callBoxed(stack);
  } catch (const c10::Error&) {
    VESTA_UNSUPPORTED("{} has no shape rule", op.op->name);
  }
  return types_of(stack, result_device(boxed));
}

// Whether the kernel may run on sample contents although there is a meta function: few elements, and no integers that
// may be indices into another tensor.
bool runs_on_samples(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  constexpr int64_t kMost = 1 << 20;
  int64_t elements = 0;
  size_t tensors = 0, integers = 0;
  const auto see = [&](const at::Tensor& t) {
    if (!t.defined()) return;
    const graph::TensorType type = r.type_of(t);
    ++tensors;
    integers += is_integral(type.dtype);
    int64_t n = 1;
    for (const Expr e : type.sizes) n = std::min(n * std::max<int64_t>(hint(e), 0), kMost + 1);
    elements += type.device.type == DeviceType::CPU ? n : kMost + 1;
  };
  for (const c10::IValue& v : boxed) {
    if (v.isTensor()) see(v.toTensor());
    if (v.isList())
      for (const auto& e : v.toListRef())
        if (e.isTensor()) see(e.toTensor());
  }
  return !op.random && tensors > 0 && elements <= kMost && (integers == 0 || tensors == 1);
}

// Swallows warnings: the program warns when it runs.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Cheaper than a meta function in Python, which imports sympy and much else when it first runs. Empty: the kernel does
// not accept the sample.
std::vector<graph::TensorType> by_silent_execution(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  const c10::WarningUtils::WarnAlways nothing_counts_as_said(true);
  try {
    return by_execution(r, op, boxed);
  } catch (const std::exception&) {
    return {};
  }
}

std::vector<graph::TensorType> by_meta(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> boxed) {
  if (op.meta_in_python && !op.custom && runs_on_samples(r, op, boxed)) {
    if (auto types = by_silent_execution(r, op, boxed); !types.empty()) return types;
  }
  torch::jit::Stack stack = plain_arguments(r, boxed, make_meta);
  const auto& arguments = op.handle.schema().arguments();
  for (size_t i = 0; i < stack.size(); ++i)
    if (stack[i].isDevice() || (op.factory && arguments[i].name() == "device"))
      stack[i] = c10::Device(c10::DeviceType::Meta);
  const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
  try {
    op.handle.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    return by_execution(r, op, boxed);
  }
  return types_of(stack, result_device(boxed));
}

bool is_float8(const graph::Value* v) { return v && vesta::is_float8(v->type.dtype); }

// ATen has few kernels for float8. Eager raises for an operator without one, even if its result is not read.
void refuse_float8(const Operator& op, const std::vector<graph::Arg>& args,
                   const std::vector<graph::TensorType>& results) {
  if (op.op->takes_float8()) return;
  bool found = std::any_of(results.begin(), results.end(), [](const auto& t) { return vesta::is_float8(t.dtype); });
  for (const graph::Arg& a : args) {
    if (const auto* v = std::get_if<graph::Value*>(&a)) found |= is_float8(*v);
    if (const auto* list = std::get_if<graph::ValueList>(&a))
      found |= std::any_of(list->begin(), list->end(), is_float8);
  }
  if (found) VESTA_UNSUPPORTED("{} of float8", op.op->name);
}

std::vector<graph::TensorType> inferred_types(Recorder& r, const Operator& op, const std::vector<graph::Arg>& args,
                                              c10::ArrayRef<c10::IValue> boxed) {
  if (has_rule(op)) return graph::infer_types(*op.op, args, r.guards());
  if (op.row && op.row->meta_differs && result_device(boxed).is_cpu()) return by_execution(r, op, boxed);
  if (op.row && op.row->cpu_only && !result_device(boxed).is_cpu())
    VESTA_UNSUPPORTED("{} off the CPU, where its strides differ from its meta function's", op.op->name);
  return by_meta(r, op, boxed);
}

}  // namespace

bool has_rule(const Operator& op) {
  return op.op && op.op->row && (op.op->row->shape || op.op->family() == graph::Family::Pointwise);
}

std::vector<graph::TensorType> result_types(Recorder& r, const Operator& op, const std::vector<graph::Arg>& args,
                                            c10::ArrayRef<c10::IValue> boxed) {
  refuse_float8(op, args, {});
  std::vector<graph::TensorType> types = inferred_types(r, op, args, boxed);
  refuse_float8(op, {}, types);
  return types;
}

}  // namespace vesta::trace
