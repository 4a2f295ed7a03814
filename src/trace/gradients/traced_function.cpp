#include "trace/gradients/traced_function.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "graph/copy.h"
#include "graph/joint.h"
#include "graph/passes/rewriter.h"
#include "trace/recorder.h"

namespace vesta::trace {

using torch::autograd::variable_list;

TracedFunction::TracedFunction(Recorder& r, NodePointer node, const std::vector<at::Tensor>& results, bool fills_zeros)
    : node_(std::move(node)),
      results_(results),
      place_(r.place ? r.place() : -1),
      fills_zeros_(fills_zeros),
      tangents_(node_->num_inputs()) {
  graph::Graph& g = r.graph();
  const graph::Node* const last = g.last();
  variable_list given(tangents_.size());
  for (const at::Tensor& t : results) {
    const size_t i = t.output_nr();
    const graph::TensorType type = r.type_of(t);
    tangents_[i] = r.emit("aten::empty_strided", {graph::IntList(type.sizes), graph::IntList(type.strides)},
                          {{"dtype", type.dtype}, {"device", type.device}});
    given[i] = r.fresh(tangents_[i]);
    if (r.first_writable == 0) r.first_writable = tangents_[i]->id;
  }
  const auto writable = c10::make_scope_exit([&] { r.first_writable = 0; });
  const at::AutoGradMode off(false);
  const variable_list found = (*node_)(std::move(given));
  for (const at::Tensor& t : found) gradients_.push_back(t.defined() ? r.value_of(t) : nullptr);
  for (const graph::Node* n = last ? last->next : g.first(); n; n = n->next) {
    if (!graph::is_pure(*n) && n->op != &graph::detach_op() && n->op != &graph::alias_op())
      VESTA_UNSUPPORTED("the backward method of {} calls {}", node_->name(), n->op->name);
    recorded_.push_back(n);
  }
}

bool TracedFunction::passes_on() const {
  const auto& edges = node_->next_edges();
  return gradients_ == tangents_ && edges.size() == tangents_.size() &&
         std::ranges::none_of(tangents_, [](const graph::Value* v) { return !v; }) &&
         std::ranges::all_of(edges, [](const torch::autograd::Edge& e) { return e.is_valid(); });
}

variable_list TracedFunction::replay(Recorder& r, const variable_list& tangents) const {
  std::unordered_map<const graph::Value*, graph::Value*> values;
  for (size_t i = 0; i < tangents_.size(); ++i) {
    if (!tangents_[i]) continue;
    const graph::TensorType& type = tangents_[i]->type;
    if (i < tangents.size() && tangents[i].defined()) {
      graph::Value* v = r.value_of(tangents[i]);
      if (v->type != type) v = r.add_node(graph::get_op("aten::clone"), {v, graph::None()}, {type})->results.at(0);
      values[tangents_[i]] = v;
    } else if (fills_zeros_) {
      values[tangents_[i]] =
          r.emit("aten::full", {graph::IntList(type.sizes), Expr(0)}, {{"dtype", type.dtype}, {"device", type.device}});
    } else {
      VESTA_UNSUPPORTED("{} has a result without a gradient, and takes no zeros for it", node_->name());
    }
  }
  const graph::ExprMap same = [](Expr e) { return e; };
  for (const graph::Node* n : recorded_) {
    n->for_each_input([&](graph::Value* v) { values.try_emplace(v, v); });
    if (n->results.size() == 1 && values.contains(n->results[0])) continue;  // a placeholder
    graph::add_copy(r.graph(), *n, same, values);
  }
  variable_list out;
  for (graph::Value* v : gradients_) {
    if (!v)
      out.emplace_back();
    else
      out.push_back(r.fresh(values.try_emplace(v, v).first->second));
  }
  return out;
}

}  // namespace vesta::trace
