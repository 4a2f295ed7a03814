#include "trace/graph_interpreter.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/check.h"
#include "interop/find_operator.h"
#include "interop/torch_types.h"

namespace vesta::trace {
namespace {

c10::IValue to_value(const GraphInterpreter& in, const graph::Arg& a, const c10::Argument& formal) {
  if (graph::is_none(a))
    return formal.type()->kind() == c10::TypeKind::TensorType ? c10::IValue(at::Tensor()) : c10::IValue();
  if (const auto* v = std::get_if<graph::Value*>(&a)) return in.get(*v);
  if (const auto* list = std::get_if<graph::ValueList>(&a)) {
    if (formal.type()->str().find('?') != std::string::npos ||
        formal.type()->str().find("Optional") != std::string::npos) {
      c10::List<std::optional<at::Tensor>> out;
      for (const auto* v : *list) out.push_back(v ? std::optional<at::Tensor>(in.get(v)) : std::nullopt);
      return out;
    }
    c10::List<at::Tensor> out;
    for (const auto* v : *list) out.push_back(in.get(v));
    return out;
  }
  if (const auto* b = std::get_if<bool>(&a)) return *b;
  if (const auto* e = std::get_if<Expr>(&a)) {
    const int64_t number = in.number(*e);
    if (formal.real_type()->str().find("float") != std::string::npos) return static_cast<double>(number);
    return number;
  }
  if (const auto* l = std::get_if<graph::IntList>(&a)) return in.numbers(*l);
  if (const auto* d = std::get_if<double>(&a)) return *d;
  if (const auto* l = std::get_if<std::vector<double>>(&a)) return *l;
  if (const auto* l = std::get_if<std::vector<bool>>(&a)) {
    c10::List<bool> out;
    for (const bool b : *l) out.push_back(b);
    return out;
  }
  if (const auto* c = std::get_if<std::complex<double>>(&a))
    return c10::IValue(c10::complex<double>(c->real(), c->imag()));
  if (const auto* s = std::get_if<std::string>(&a)) return *s;
  if (const auto* t = std::get_if<DType>(&a)) return to_scalar_type(*t);
  if (const auto* d = std::get_if<Device>(&a)) return in.device(*d);
  if (const auto* f = std::get_if<MemoryFormat>(&a)) return to_torch(*f);
  return c10::Layout::Strided;
}

}  // namespace

GraphInterpreter::GraphInterpreter(const graph::Graph& graph, std::span<const int64_t> symbols) {
  VESTA_CHECK(symbols.size() == graph.symbols.size(), "{} values for {} symbols", symbols.size(), graph.symbols.size());
  for (size_t i = 0; i < symbols.size(); ++i) symbols_[graph.symbols[i].symbol.node()] = symbols[i];
}

int64_t GraphInterpreter::number(Expr e) const {
  return evaluate(e, [&](Expr s) { return symbols_.at(s.node()); });
}

std::vector<int64_t> GraphInterpreter::numbers(const std::vector<Expr>& list) const {
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (const Expr e : list) out.push_back(number(e));
  return out;
}

c10::Device GraphInterpreter::device(const Device& of_node) const { return device_ ? *device_ : to_torch(of_node); }

std::vector<at::Tensor> GraphInterpreter::run(const graph::Node& n) {
  const c10::OperatorHandle op = vesta::find_operator(n.op->name);
  torch::jit::Stack stack;
  for (size_t i = 0; i < n.args().size(); ++i)
    stack.push_back(to_value(*this, n.args()[i], op.schema().arguments()[i]));
  op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& v : stack) {
    if (v.isTensor())
      results.push_back(v.toTensor());
    else if (v.isNone())
      results.emplace_back();
    else
      for (const c10::IValue& e : v.toListRef()) results.push_back(e.toTensor());
  }
  VESTA_CHECK(results.size() == n.results.size(), "{} gave {} results", n.op->name, results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::Value* v = n.results[i];
    if (!v) continue;
    at::Tensor t = results[i];
    if (n.op->name == "aten::copy")
      if (const std::vector<int64_t> strides = numbers(v->type.strides); t.strides() != at::IntArrayRef(strides))
        t = at::empty_strided(t.sizes(), strides, t.options()).copy_(t);
    set(v, std::move(t));
  }
  return results;
}

void GraphInterpreter::run(const graph::Graph& graph, std::span<const at::Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) set(graph.inputs[i].value, inputs[i]);
  graph.for_each_node([&](const graph::Node* n) { run(*n); });
}

void GraphInterpreter::run(const graph::Graph& graph, std::span<const at::Tensor> inputs,
                           std::span<const graph::Value* const> given, std::span<const graph::Value* const> wanted) {
  const auto is_given = [&](const graph::Value* v) { return std::ranges::find(given, v) != given.end(); };
  std::unordered_map<const graph::Value*, at::Tensor> kept;
  for (const graph::Value* v : given) kept.emplace(v, get(v));
  std::unordered_set<const graph::Node*> needed;
  std::vector<const graph::Value*> open(wanted.begin(), wanted.end());
  while (!open.empty()) {
    const graph::Value* const v = open.back();
    open.pop_back();
    if (!v->producer || is_given(v) || !needed.insert(v->producer).second) continue;
    v->producer->for_each_input([&](const graph::Value* read) { open.push_back(read); });
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_given(graph.inputs[i].value)) set(graph.inputs[i].value, inputs[i]);
  graph.for_each_node([&](const graph::Node* n) {
    if (!needed.contains(n)) return;
    run(*n);
    for (const graph::Value* v : n->results)
      if (const auto it = kept.find(v); it != kept.end()) set(v, it->second);
  });
}

}  // namespace vesta::trace
