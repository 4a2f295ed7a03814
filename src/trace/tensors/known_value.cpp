#include "trace/tensors/known_value.h"

#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "trace/graph_interpreter.h"
#include "trace/operators/arguments.h"
#include "trace/operators/dispatch_key.h"

namespace vesta::trace {
namespace {

// The tensor's contents as a real tensor; nullopt if they are not known.
std::optional<at::Tensor> known(Recorder& r, const at::Tensor& t) {
  if (traced(t)) {
    const auto it = r.known.find(r.value_of(t));
    return it == r.known.end() ? std::nullopt : std::optional(it->second);
  }
  const auto number =
      wrapped_number(t);  // a number of the program's; any other real tensor may change before the next call
  if (!number) return std::nullopt;
  const Expr* e = std::get_if<Expr>(&*number);
  return e && !e->is_constant() ? std::nullopt : std::optional(t);
}

bool makes_constants(const graph::Op& op) {
  return op.role() == graph::Role::Fill || op.role() == graph::Role::Zeros || op.role() == graph::Role::Ones;
}

bool is_symbolic(const graph::Arg& a) {
  if (const auto* const e = std::get_if<Expr>(&a)) return !e->is_constant();
  const auto* const list = std::get_if<graph::IntList>(&a);
  return list && std::ranges::any_of(*list, [](Expr e) { return !e.is_constant(); });
}

// Whether nodes with constant arguments make this value, with few elements in all.
bool follows_from_numbers(const graph::Value& value) {
  constexpr int64_t kMostElements = int64_t{1} << 22;
  int64_t elements = 0;
  std::unordered_set<const graph::Node*> seen;
  std::vector<const graph::Value*> open{&value};
  while (!open.empty()) {
    const graph::Node* const made_by = open.back()->producer;
    open.pop_back();
    if (!made_by || !made_by->op->row || made_by->op->has(graph::kRandom)) return false;
    if (std::ranges::any_of(made_by->args(), is_symbolic)) return false;
    if (!seen.insert(made_by).second) continue;
    for (const graph::Value* v : made_by->results) {
      if (!v) continue;
      const Expr count = graph::numel(v->type);
      if (!count.is_constant() || (elements += count.constant()) > kMostElements) return false;
    }
    made_by->for_each_input([&](const graph::Value* v) { open.push_back(v); });
  }
  return true;
}

}  // namespace

void note_known(Recorder& r, const Operator& op, c10::ArrayRef<c10::IValue> arguments, const graph::Value* result) {
  if (op.random || op.return_count != 1 || !result || result->type.dim() != 0) return;
  torch::jit::Stack stack;
  bool from_known = makes_constants(*op.op);
  for (const c10::IValue& v : arguments) {
    if (v.isTensor() && v.toTensor().defined()) {
      const auto contents = known(r, v.toTensor());
      if (!contents) return;
      stack.emplace_back(*contents);
      from_known = true;
    } else if (v.isTensorList() || v.isOptionalTensorList() || v.isSymInt() || v.isSymFloat() || v.isSymBool()) {
      return;
    } else {
      stack.push_back(v);
    }
  }
  if (!from_known) return;
  const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
  try {
    op.handle.callBoxed(stack);
  } catch (const c10::Error&) {
    return;  // the compiled program raises it
  }
  r.known.emplace(result, stack.at(0).toTensor());
}

std::optional<c10::Scalar> known_number(Recorder& r, const at::Tensor& t) {
  const auto contents = known(r, t);
  if (!contents) return std::nullopt;
  const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
  return contents->item();
}

std::optional<at::Tensor> known_contents(Recorder& r, const at::Tensor& t) {
  if (auto found = known(r, t)) return found;
  const graph::Value* const value = traced(t) ? r.value_of(t) : nullptr;
  if (!value || !follows_from_numbers(*value)) return std::nullopt;
  GraphInterpreter in(r.graph(), std::vector<int64_t>(r.graph().symbols.size()));
  in.compute_on(c10::kCPU);
  const c10::impl::ExcludeDispatchKeyGuard not_ours(trace_key());
  try {
    in.run(r.graph(), {}, {}, std::span(&value, 1));
  } catch (const c10::Error&) {
    return std::nullopt;  // the compiled program raises it
  }
  return r.known.emplace(value, in.get(value)).first->second;
}

void needs_value(const Operator& op) {
  throw NeedsValue(fmt::format("{} needs the value of a tensor", op.handle.schema().name()));
}

}  // namespace vesta::trace
