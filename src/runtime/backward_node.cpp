#include "runtime/backward_node.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/strides.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "base/check.h"

namespace vesta::runtime {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

BackwardNode::BackwardNode(std::shared_ptr<const Differentiable> program, size_t part)
    : program_(std::move(program)), part_(part) {}

void BackwardNode::connect_inputs(const CallInputs& in) {
  torch::autograd::edge_list edges;
  edges.reserve(part().inputs.size());
  for (const int i : part().inputs)
    edges.push_back(torch::autograd::impl::gradient_edge(in.tensor(static_cast<size_t>(i))));
  set_next_edges(std::move(edges));
}

void BackwardNode::connect_results(const CallInputs& in, std::span<const c10::IValue> outputs) {
  const BackwardPart& p = part();
  const auto self = getptr();
  strides_.resize(p.results.size());
  for (size_t i = 0; i < p.results.size(); ++i) {
    const int r = p.results[i];
    const at::Tensor result =
        r >= 0 ? outputs[static_cast<size_t>(r)].toTensor() : in.tensor(static_cast<size_t>(-1 - r));
    strides_[i] = p.contiguous[i] ? c10::contiguous_strides(result.sizes()) : at::DimVector(result.strides());
    if (r >= 0)
      torch::autograd::set_history(result, self);
    else
      torch::autograd::impl::rebase_history(result, {self, add_input_metadata(result)});
  }
}

namespace {

uint32_t version_of(const at::Tensor& t) { return t.is_inference() ? 0 : static_cast<uint32_t>(t._version()); }

}  // namespace

void BackwardNode::save(const CallInputs& in, std::span<const c10::IValue> outputs) {
  const BackwardPart& p = part();
  saved_.reserve(p.saved.size());
  for (const int i : p.saved) {
    const Saved& s = program_->saved[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(s.index);
    if (s.from == Saved::From::Input) {
      saved_.emplace_back(in.tensor(at), false);
      continue;
    }
    const at::Tensor& t = outputs[at].toTensor();
    saved_.emplace_back(t, std::ranges::find(p.results, s.index) != p.results.end());
  }
  for (const int i : program_->sizes) sizes_.push_back(outputs[static_cast<size_t>(i)].toInt());
  if (!program_->again) return;
  for (size_t i = 0; i < in.tensor_count(); ++i) {
    inputs_.push_back(in.tensor(i));
    versions_.push_back(version_of(inputs_.back()));
  }
}

void BackwardNode::release_variables() {
  const std::lock_guard lock(mutex_);
  for (SavedVariable& s : saved_) s.reset_data();
  inputs_.clear();
  is_released_ = true;
}

std::vector<at::Tensor> BackwardNode::take_saved() {
  std::vector<at::Tensor> out;
  out.reserve(saved_.size());
  const auto self = getptr();
  for (const SavedVariable& s : saved_) out.push_back(s.unpack(self));
  // The engine releases them after the pass; its memory is needed during the pass.
  if (!torch::autograd::get_current_graph_task_keep_graph())
    for (SavedVariable& s : saved_) s.reset_data();
  return out;
}

// Strides of dimensions with one element are arbitrary.
static bool same_order(const at::Tensor& t, at::IntArrayRef strides) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.size(d) > 1 && t.stride(d) != strides[static_cast<size_t>(d)]) return false;
  return true;
}

// The tangent as the backward half takes it, and its state.
at::Tensor BackwardNode::as_result(const at::Tensor& tangent, size_t i, TangentState& state) const {
  state = TangentState::Undefined;
  if (!tangent.defined()) return {};
  at::Tensor t = tangent;
  if (t.is_conj() || t.is_neg()) t = t.resolve_conj().resolve_neg();
  if (t.numel() > 1 && std::ranges::all_of(t.strides(), [](int64_t s) { return s == 0; }))
    return state = TangentState::Expanded, t;
  state = TangentState::Dense;
  const at::IntArrayRef strides(strides_[i]);
  if (t.strides() == strides) return t;
  if (same_order(t, strides)) return t.as_strided(t.sizes(), strides);
  return at::empty_strided(t.sizes(), strides, t.options()).copy_(t);
}

// Whether its memory is that of its elements: no sparse tensor, none that stands for a batch (torch.vmap), and no
// subclass that dispatches in Python.
static bool has_own_elements(const at::Tensor& t) {
  constexpr c10::DispatchKeySet kWrapped{c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::Batched, c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::Python};
  return !t.defined() || (t.layout() == at::kStrided && !t.key_set().has_any(kWrapped));
}

variable_list BackwardNode::apply(variable_list&& tangents) {
  if (part().gradients.empty()) return {};
  const std::lock_guard lock(mutex_);
  const bool creates_graph = c10::GradMode::is_enabled();
  const bool plain = std::ranges::all_of(tangents, has_own_elements);
  if (program_->again && (creates_graph || !plain)) return by_program(tangents, creates_graph);
  if (!plain)
    for (at::Tensor& t : tangents)
      if (t.defined() && t.layout() != at::kStrided) t = t.to_dense();
  TORCH_CHECK_NOT_IMPLEMENTED(plain || std::ranges::all_of(tangents, has_own_elements),
                              "a backward pass for many tangents at once (is_grads_batched, torch.vmap) through a "
                              "compiled program that draws random numbers, writes its inputs, or writes to a tensor "
                              "where autograd does not see it, is not implemented");
  if (!creates_graph) return run(std::move(tangents));
  // The gradients are right, and only a derivative of them is refused.
  torch::autograd::edge_list edges = torch::autograd::collect_next_edges(tangents);
  const at::AutoGradMode off(false);
  variable_list out = run(std::move(tangents));
  const NodePointer refused = make_autograd_node<torch::autograd::Error>(
      "double backward through a compiled program that draws random numbers, writes its inputs, or writes to a tensor "
      "where autograd does not see it, is not implemented",
      std::move(edges));
  for (at::Tensor& t : out)
    if (t.defined()) torch::autograd::set_history(t = t.detach(), refused);
  return out;
}

// With the same strides: those of an expanded tangent are 0.
static at::Tensor copy_of(const at::Tensor& t) {
  if (t.numel() > 1 && std::ranges::all_of(t.strides(), [](int64_t s) { return s == 0; }))
    return t.as_strided({}, {}).clone().expand(t.sizes());
  return at::empty_strided(t.sizes(), t.strides(), t.options()).copy_(t);
}

variable_list BackwardNode::run(variable_list&& tangents) {
  const BackwardPart& p = part();
  std::vector<at::Tensor> inputs = take_saved();
  std::vector<TangentState> states(p.results.size(), TangentState::Undefined);
  for (size_t i = 0; i < states.size(); ++i)
    if (at::Tensor t = as_result(i < tangents.size() ? tangents[i] : at::Tensor(), i, states[i]); t.defined())
      inputs.push_back(std::move(t));
  tangents.clear();
  std::vector<c10::IValue> results;
  if (const std::shared_ptr<const Executable> program = p.program(states)) {
    CallInputs in{inputs, {}, sizes_};
    std::string why;
    Addresses addresses;
    bool accepted = program->accepts(in, nullptr, &addresses);
    if (!accepted) {  // a tangent begins at an address that a GPU does not read 16 bytes from
      for (size_t i = saved_.size(); i < inputs.size(); ++i) inputs[i] = copy_of(inputs[i]);
      addresses.clear();
      accepted = program->accepts(in, &why, &addresses);
    }
    VESTA_CHECK(accepted, "the backward half does not take its own inputs: {}", why);
    in.addresses = {addresses.data(), addresses.size()};
    program->run(in, results, inputs);
  } else {
    for (at::Tensor& t : p.by_operators(states, inputs, sizes_))
      results.push_back(t.defined() ? c10::IValue(std::move(t)) : c10::IValue());
  }
  variable_list out;
  out.reserve(p.gradients.size());
  std::vector<int> left(results.size(), 0);
  for (const int g : p.gradients) ++left[static_cast<size_t>(g)];
  for (const int g : p.gradients) {
    c10::IValue& v = results[static_cast<size_t>(g)];
    if (!v.isTensor())
      out.emplace_back();
    else if (--left[static_cast<size_t>(g)] == 0)  // AccumulateGrad keeps a tensor that nobody else has
      out.push_back(std::move(v).toTensor());
    else
      out.push_back(v.toTensor());
  }
  return out;
}

// The pass creates a graph: the program runs once more, by its own operators, which have derivatives.
variable_list BackwardNode::by_program(const variable_list& tangents, bool creates_graph) {
  const at::AutoGradMode on(true);
  TORCH_CHECK(!is_released_, torch::autograd::ERR_BACKWARD_TWICE);
  for (size_t i = 0; i < inputs_.size(); ++i)
    TORCH_CHECK(version_of(inputs_[i]) == versions_[i],
                "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                "input of a compiled program");
  const BackwardPart& p = part();
  variable_list results, given, asked;
  const std::vector<at::Tensor> again = program_->again(inputs_, sizes_, p.results);
  for (size_t i = 0; i < again.size(); ++i) {
    if (i >= tangents.size() || !tangents[i].defined() || !again[i].requires_grad()) continue;
    results.push_back(again[i]);
    given.push_back(tangents[i]);
  }
  for (const int i : p.inputs) asked.push_back(inputs_[static_cast<size_t>(i)]);
  if (results.empty()) return variable_list(asked.size());
  return torch::autograd::grad(results, asked, given, /*retain_graph=*/creates_graph, creates_graph,
                               /*allow_unused=*/true);
}

}  // namespace vesta::runtime
