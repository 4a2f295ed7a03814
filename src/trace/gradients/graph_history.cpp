#include "trace/gradients/graph_history.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "graph/joint.h"
#include "trace/ops/rows.h"

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
  for_each_traced(arguments, [&](const at::Tensor& t) {
    const bool is_followed = in_grad_mode_ && t.requires_grad();
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
  if (!in_grad_mode_ || !op.op) return;
  for_each_traced(results, [&](const at::Tensor& t) {
    const Value* const v = traced(t)->alias().storage->base;
    if (t.requires_grad() || v->id < first_value_ || !v->producer || v->producer->op != op.op) return;
    if (has(v)) recorded_.erase(v);
  });
}

Value* GraphHistory::as_read(const at::Tensor& t, Value* value) {
  if (without_history_.empty() ||
      std::ranges::find(without_history_, t.unsafeGetTensorImpl()) == without_history_.end())
    return value;
  if (!has(value)) return value;
  Value*& known = detached_[value];
  if (!known) known = graph_.add_node(graph::detach_op(), {value}, {value->type})->results.at(0);
  return known;
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
