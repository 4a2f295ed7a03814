#include "trace/operators/functional_form.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <vector>

namespace vesta::trace {
namespace {

bool written(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }

c10::IValue copy(const c10::IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() ? at::clone(v.toTensor()) : at::Tensor();
  if (!v.isTensorList()) return at::Tensor();
  std::vector<at::Tensor> list = v.toTensorVector();
  for (at::Tensor& t : list) t = at::clone(t);
  return c10::List<at::Tensor>(list);
}

class CopyAndCall final : public c10::OperatorKernel {
 public:
  // `runs`: false if only the copies are wanted (for the types of an operator without a meta function).
  CopyAndCall(c10::OperatorHandle op, bool runs) : op_(std::move(op)), runs_(runs) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op_.schema();
    const size_t first = stack->size() - schema.arguments().size();
    torch::jit::Stack inner(stack->begin() + static_cast<int64_t>(first), stack->end());
    stack->resize(first);
    torch::jit::Stack copies;
    for (size_t i = 0; i < inner.size(); ++i) {
      if (!written(schema.arguments()[i])) continue;
      copies.push_back(copy(inner[i]));
      if (!inner[i].isNone()) inner[i] = copies.back();
    }
    if (runs_) {
      op_.callBoxed(inner);
      for (size_t i = 0; i < schema.returns().size(); ++i) {
        if (!schema.returns()[i].alias_info()) stack->push_back(std::move(inner[i]));
      }
    }
    for (c10::IValue& v : copies) stack->push_back(std::move(v));
  }

 private:
  c10::OperatorHandle op_;
  bool runs_;
};

}  // namespace

std::optional<c10::OperatorHandle> functional_form(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const bool has_meta = op.hasKernelForDispatchKey(c10::DispatchKey::Meta);
  std::vector<c10::Argument> arguments, returns;
  for (const c10::Argument& r : schema.returns()) {
    if (r.alias_info() && !written(r)) return std::nullopt;
    if (r.alias_info()) continue;
    if (!has_meta) return std::nullopt;
    returns.push_back(r);
  }
  for (const c10::Argument& a : schema.arguments()) {
    arguments.emplace_back(a.name(), a.type(), a.real_type(), a.N(), a.default_value(), a.kwarg_only(), std::nullopt);
    if (!written(a)) continue;
    const bool list = a.type()->kind() == c10::TypeKind::ListType;
    if (list && *a.type()->castRaw<c10::ListType>()->getElementType() != *c10::TensorType::get()) return std::nullopt;
    returns.emplace_back("", list ? c10::TypePtr(c10::ListType::ofTensors()) : c10::TypePtr(c10::TensorType::get()));
  }
  std::string name = schema.name();
  name.replace(name.find("::"), 2, "_");
  c10::FunctionSchema functional("vesta::" + name + "_functional", schema.overload_name(), arguments, returns);
  const c10::OperatorName own = functional.operator_name();
  auto& dispatcher = c10::Dispatcher::singleton();
  // Registrations are kept, as every operator of a library is.
  static auto* registered = new std::vector<c10::RegistrationHandleRAII>();
  registered->push_back(dispatcher.registerDef(std::move(functional), "", op.getTags().vec()));
  const auto implement = [&](c10::DispatchKey key, bool runs) {
    auto kernel = c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<CopyAndCall>(op, runs));
    registered->push_back(dispatcher.registerImpl(own, key, std::move(kernel), std::nullopt, nullptr, ""));
  };
  implement(c10::DispatchKey::CPU, true);
  implement(c10::DispatchKey::CUDA, true);
  implement(c10::DispatchKey::Meta, has_meta);
  return dispatcher.findSchema(own);
}

}  // namespace vesta::trace
