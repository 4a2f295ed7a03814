#include "trace/gradients/graph_history.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "graph/joint.h"
#include "trace/ops/rows.h"
#include "trace/tensors/alias.h"

namespace vesta::trace {

using graph::Value;

namespace {

template <class F>
void for_each_traced(c10::ArrayRef<c10::IValue> values, F&& f) {
  const auto visit = [&](const at::Tensor& t) {
    if (t.defined() && traced(t)) f(t);
  };
  for (const c10::IValue& v : values) {
    if (v.isTensor()) visit(v.toTensor());
    if (!v.isList()) continue;
    for (const c10::IValue& e : v.toListRef())
      if (e.isTensor()) visit(e.toTensor());
  }
}

// v without its history. `known` keeps it for the next call.
Value* detached(graph::Graph& graph, Value*& known, Value* v) {
  if (!known) known = graph.add_node(graph::detach_op(), {v}, {v->type})->results.at(0);
  return known;
}

}  // namespace

void GraphHistory::follow_new_nodes() {
  const auto is_recorded = [&](const Value* v) { return v && recorded_.contains(v); };
  for (const graph::Node* n = followed_ ? followed_->next : graph_.first(); n; n = n->next) {
    followed_ = n;
    if (n->op == &graph::detach_op()) continue;
    const bool any = std::ranges::any_of(n->args(), [&](const graph::Arg& a) {
      if (const auto* v = std::get_if<Value*>(&a)) return is_recorded(*v);
      const auto* list = std::get_if<graph::ValueList>(&a);
      return list && std::ranges::any_of(*list, is_recorded);
    });
    if (!any) continue;
    for (const Value* v : n->results)
      if (v && (is_float(v->type.dtype) || is_complex(v->type.dtype))) recorded_.insert(v);
  }
}

bool GraphHistory::has(const Value* v) {
  follow_new_nodes();
  return recorded_.contains(v);
}

bool GraphHistory::has(const at::Tensor& t) { return has(traced(t)->alias().storage->base); }

void GraphHistory::begin(const Operator& op, c10::ArrayRef<c10::IValue> arguments) {
  is_working_ = true;
  in_grad_mode_ = c10::GradMode::is_enabled();
  without_history_.clear();
  arguments_.clear();
  for_each_traced(arguments, [&](const at::Tensor& t) {
    const bool is_followed = in_grad_mode_ && t.requires_grad();
    if (is_followed) {
      note(t);
      arguments_.emplace_back(t.unsafeGetTensorImpl(), torch::autograd::impl::gradient_edge(t));
    }
    if (is_followed == has(t)) return;
    if (is_followed)
      part();
    else
      without_history_.push_back(t.unsafeGetTensorImpl());
  });
  if (op.row && op.row->drops_history && has(arguments[0].toTensor())) part();
  first_value_ = graph_.value_count();
}

// A result that requires no gradient has no history if the operator itself is the node: it depends on no element of its
// arguments, as that of zeros_like.
void GraphHistory::end(const Operator& op, c10::ArrayRef<c10::IValue> results) {
  is_working_ = false;
  without_history_.clear();
  arguments_.clear();
  if (!in_grad_mode_ || !op.op) return;
  for_each_traced(results, [&](const at::Tensor& t) {
    const Value* const v = traced(t)->alias().storage->base;
    if (t.requires_grad() || v->id < first_value_ || !v->producer || v->producer->op != op.op) return;
    if (has(v)) recorded_.erase(v);
  });
}

void GraphHistory::note(const at::Tensor& t) {
  Alias& alias = traced(t)->alias();
  // A leaf that the program has made: nothing has led to its value.
  if (t.is_leaf() && !alias.view && !has(t)) recorded_.insert(alias.storage->base);
  if (alias.version == alias.storage->version && !alias.conj_neg.any() && alias.value)
    at_edge(alias.value, torch::autograd::impl::gradient_edge(t));
}

Value* GraphHistory::value_at(const Edge& e) const {
  const auto it = values_.find({e.function.get(), e.input_nr});
  return knows_edges_ && it != values_.end() ? it->second : nullptr;
}

// What the graph reads in the place of a value whose gradient arrives at this edge.
Value* GraphHistory::at_edge(Value* v, const Edge& e) {
  const Edge& first = first_edges_.try_emplace(v, e).first->second;
  const Key key(e.function.get(), e.input_nr);
  Value* out = v;
  if (first != e) {
    const auto known = aliases_.find({key, v});
    out = known != aliases_.end() ? known->second : nullptr;
    if (!out) {
      const bool is_leaf = e.function->next_edges().empty();
      Value* const source = is_leaf && has(v) ? detached(graph_, detached_[v], v) : source_of_alias(v, e);
      out = graph_.add_node(graph::alias_op(), {source}, {v->type})->results.at(0);
      aliases_.emplace(std::pair(key, v), out);
      if (is_leaf) recorded_.insert(out);
    }
  }
  const auto [it, is_new] = values_.try_emplace(key, out);
  if (is_new)
    nodes_.push_back(e.function);
  else if (it->second != out)
    it->second = nullptr;
  return out;
}

// A gradient that arrives at the edge goes on to that of the source.
Value* GraphHistory::source_of_alias(Value* v, const Edge& e) {
  std::unordered_set<Value*> sources;
  for (const Edge& next : e.function->next_edges()) {
    if (!next.is_valid()) continue;
    if (next == first_edges_.at(v)) sources.insert(v);
    if (const auto it = aliases_.find({{next.function.get(), next.input_nr}, v}); it != aliases_.end())
      sources.insert(it->second);
  }
  if (sources.size() == 1) return *sources.begin();
  if (!e.function->next_edges().empty()) forget_edges();
  return v;
}

Value* GraphHistory::as_viewed(const at::Tensor& t, Value* value) {
  const auto it = std::ranges::find(arguments_, t.unsafeGetTensorImpl(), [](const auto& f) { return f.first; });
  return it == arguments_.end() ? value : at_edge(value, it->second);
}

Value* GraphHistory::as_read(const at::Tensor& t, Value* value) {
  value = as_viewed(t, value);
  if (without_history_.empty() ||
      std::ranges::find(without_history_, t.unsafeGetTensorImpl()) == without_history_.end())
    return value;
  return has(value) ? detached(graph_, detached_[value], value) : value;
}

// Autograd follows a write through a tensor, its base and its views. It does not follow one through a detached tensor,
// or one in the program's no_grad().
void GraphHistory::note_write(const at::Tensor& target, const Value* value) {
  if (!is_working_ || !is_whole_ || !traced(target)) return;
  if (in_grad_mode_ && !traced(target)->detached) return;
  if (has(target) || has(value)) part();
}

bool GraphHistory::is_whole(c10::ArrayRef<c10::IValue> results) {
  for_each_traced(results, [&](const at::Tensor& t) { is_whole_ &= !t.requires_grad() || has(t); });
  return is_whole_;
}

}  // namespace vesta::trace
