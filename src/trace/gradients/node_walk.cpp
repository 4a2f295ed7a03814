#include "trace/gradients/node_walk.h"

#include <ATen/ops/add.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <queue>
#include <string>
#include <string_view>

#include "base/compile_memory.h"
#include "graph/graph.h"
#include "trace/gradients/formulas.h"
#include "trace/recorder.h"

namespace vesta::trace {

using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

// The names of nodes that save no tensor (derivatives.yaml of PyTorch), without "Backward" and a number.
bool saves_nothing(const Node& node) {
  static const std::unordered_set<std::string_view> names{
      "Add",    "Sub",       "Rsub",    "Neg",          "Sum",        "Mean",      "Clone",
      "ToCopy", "View",      "Reshape", "ReshapeAlias", "Expand",     "Permute",   "Transpose",
      "T",      "Unsqueeze", "Squeeze", "Select",       "Slice",      "Split",     "SplitWithSizes",
      "Unbind", "Cat",       "Stack",   "Alias",        "UnsafeView", "AsStrided", "Narrow",
      "Chunk",  "Unflatten"};
  const std::string name = node.name();
  return names.contains(std::string_view(name).substr(0, name.find("Backward")));
}

void for_each_node(std::vector<NodePointer> open, const Ends& ends, const std::function<void(const NodePointer&)>& f) {
  Ends seen;
  std::erase_if(open, [&](const NodePointer& n) { return !seen.insert(n.get()).second; });
  while (!open.empty()) {
    const NodePointer node = std::move(open.back());
    open.pop_back();
    f(node);
    if (ends.contains(node.get())) continue;
    for (const Edge& e : node->next_edges())
      if (e.is_valid() && seen.insert(e.function.get()).second) open.push_back(e.function);
  }
}

void NodeWalk::add(const Edge& to, at::Tensor gradient) {
  variable_list& buffer = buffers_[to.function.get()];
  buffer.resize(std::max<size_t>({buffer.size(), to.function->num_inputs(), to.input_nr + size_t{1}}));
  at::Tensor& sum = buffer[to.input_nr];
  if (!gradient.defined()) return;
  sum = sum.defined() ? at::add(sum, gradient) : std::move(gradient);
}

at::Tensor NodeWalk::arrived(const Edge& at) const {
  const auto found = buffers_.find(at.function.get());
  return found == buffers_.end() || at.input_nr >= found->second.size() ? at::Tensor() : found->second[at.input_nr];
}

variable_list NodeWalk::results_of(const NodePointer& node, variable_list given) {
  if (std::ranges::none_of(given, [](const at::Tensor& t) { return t.defined(); })) return {};
  recorder_.source = node->name();
  if (const std::string line = recorder_.gradients ? recorder_.gradients->line_of(*node) : std::string(); !line.empty())
    recorder_.source += ", " + line;
  try {
    // Where the pass is differentiated itself, a method of the program runs once more, on tensors with a history.
    const Gradients* const gradients = c10::GradMode::is_enabled() ? nullptr : recorder_.gradients.get();
    const TracedFunction* const function = gradients ? gradients->function_of(*node) : nullptr;
    std::optional<variable_list> ours = function ? function->replay(recorder_, given) : derivative(node, given);
    variable_list found = ours ? *std::move(ours) : (*node)(std::move(given));
    torch::autograd::validate_outputs(node->next_edges(), found, [&](const std::string& why) {
      return "Function " + node->name() + " returned an " + why;
    });
    return found;
  } catch (const DeadlinePassed&) {
    throw;
  } catch (const GraphMemoryPassed&) {
    throw;
  } catch (const std::exception& e) {
    const std::string why = e.what();
    throw FormulaFailed(*node, why.substr(0, why.find('\n')));
  }
}

void NodeWalk::run(const std::vector<NodePointer>& starts, const Before& before, const AtEnd& at_end,
                   const After& after) {
  std::unordered_map<const Node*, int> waits;
  for_each_node(starts, ends_, [&](const NodePointer& n) {
    if (ends_.contains(n.get())) return;
    for (const Edge& e : n->next_edges())
      if (e.is_valid()) ++waits[e.function.get()];
  });
  const auto later = [](const NodePointer& a, const NodePointer& b) { return a->sequence_nr() < b->sequence_nr(); };
  std::priority_queue<NodePointer, std::vector<NodePointer>, decltype(later)> ready(later);
  std::unordered_set<const Node*> queued;
  for (const NodePointer& n : starts)
    if (waits[n.get()] == 0 && queued.insert(n.get()).second) ready.push(n);
  while (!ready.empty()) {
    const NodePointer node = ready.top();
    ready.pop();
    if (ends_.contains(node.get())) {
      if (at_end) at_end(node, arrived({node, 0}));
      continue;
    }
    if (dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get())) continue;  // of a leaf of another program
    variable_list given = std::move(buffers_[node.get()]);
    given.resize(std::max<size_t>(given.size(), node->num_inputs()));
    variable_list found;
    if (!before || before(node, given)) {
      found = results_of(node, given);
      if (after) after(node, found, given);
    }
    for (size_t i = 0; i < node->num_outputs(); ++i) {
      const Edge& e = node->next_edge(i);
      if (!e.is_valid()) continue;
      add(e, i < found.size() ? found[i] : at::Tensor());
      if (--waits[e.function.get()] == 0 && queued.insert(e.function.get()).second) ready.push(e.function);
    }
  }
}

graph::Value* in_layout_of_leaf(Recorder& r, const at::Tensor& gradient, const at::Tensor& leaf) {
  graph::Value* const value = r.value_of(gradient);
  const graph::TensorType own = r.type_of(leaf);
  graph::TensorType want = value->type;
  want.strides = graph::is_non_overlapping_and_dense(own) ? own.strides : graph::contiguous_strides(want.sizes);
  bool is_laid_out = true;  // strides of dimensions with one element are arbitrary
  for (size_t d = 0; d < want.dim(); ++d)
    is_laid_out &= want.sizes[d].is_constant(1) || want.strides[d] == value->type.strides[d];
  if (is_laid_out) return value;
  return r.add_node(graph::get_op("aten::clone"), {value, graph::None()}, {want})->results.at(0);
}

}  // namespace vesta::trace
