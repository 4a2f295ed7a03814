#include "runtime/backward_node.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/strides.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/check.h"
#include "base/fault.h"
#include "runtime/profiled_launches.h"

namespace vesta::runtime {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A pass through the segments of a part. It travels with a tensor without elements, the gradient that each of their
// nodes gives to the next one: so it lives as long as the pass, and every pass has its own.
struct BackwardPass final : c10::BackendMeta {
  std::vector<TangentState> states;
  std::vector<at::Tensor> inputs;  // of the program, if the part has one segment
  std::vector<at::Tensor> values;  // if it has several: indexed by the numbers in SegmentWires
  std::vector<int64_t> sizes;
  bool creates_graph = false;
  variable_list gradients;           // if the pass creates a graph that has derivatives: all of the part
  torch::autograd::edge_list edges;  // if it creates one that has none: of the tangents
};

namespace {

at::Tensor carrier(const at::Device& device, c10::intrusive_ptr<BackwardPass> pass = {}) {
  at::Tensor t = at::empty({0}, at::TensorOptions().dtype(at::kFloat).device(device));
  if (pass) t.unsafeGetTensorImpl()->set_backend_meta(std::move(pass));
  return t;
}

c10::intrusive_ptr<BackwardPass> pass_of(const variable_list& given) {
  if (given.empty() || !given[0].defined()) return {};
  const auto meta = given[0].unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr();
  VESTA_CHECK(dynamic_cast<BackwardPass*>(meta.get()), "a segment of a backward pass has lost its values");
  return c10::static_intrusive_pointer_cast<BackwardPass>(meta);
}

}  // namespace

BackwardNode::BackwardNode(std::shared_ptr<const Differentiable> program, size_t part, size_t segment)
    : program_(std::move(program)), part_(part), segment_(segment) {}

void BackwardNode::note_inputs(const CallInputs& in) {
  const std::vector<int>& inputs = part().inputs;
  if (part().segments.empty()) return;
  for (const int i : part().segments[segment_].gradients)
    if (const auto k = static_cast<size_t>(i); k < inputs.size())
      edges_.push_back(torch::autograd::impl::gradient_edge(in.tensor(static_cast<size_t>(inputs[k]))));
}

void BackwardNode::connect(const CallInputs& in, std::span<const torch::autograd::Edge> crossings,
                           const NodePointer& next) {
  torch::autograd::edge_list edges;
  const size_t inputs = part().inputs.size();
  size_t noted = 0;
  if (!part().segments.empty())
    for (const int i : part().segments[segment_].gradients) {
      const auto k = static_cast<size_t>(i);
      edges.push_back(k < inputs ? edges_[noted++] : crossings[static_cast<size_t>(part().gives[k - inputs])]);
    }
  edges_.clear();
  if (segment_ > 0) {
    // Where there is a GPU, the engine runs the node on its thread and stream.
    at::Device device = at::kCPU;
    for (const int i : part().inputs)
      if (const at::Device d = in.tensor(static_cast<size_t>(i)).device(); !d.is_cpu()) device = d;
    add_input_metadata(carrier(device));
  }
  if (next) edges.emplace_back(next, 0);
  set_next_edges(std::move(edges));
}

void BackwardNode::connect_results(const CallInputs& in, std::span<const c10::IValue> outputs,
                                   std::vector<torch::autograd::Edge>& crossings) {
  const BackwardPart& p = part();
  const auto self = getptr();
  strides_.resize(p.results.size() + p.takes.size());
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
  for (size_t i = 0; i < p.takes.size(); ++i) {
    const auto crossing = static_cast<size_t>(p.takes[i]);
    const at::Tensor example = example_of(program_->crossings[crossing], outputs);
    strides_[p.results.size() + i] = c10::contiguous_strides(example.sizes());
    crossings[crossing] = {self, add_input_metadata(example)};
  }
}

void BackwardNode::note_hooks(std::span<const torch::autograd::Edge> crossings) {
  for (const int t : part().takes) {
    hooks_.emplace_back();
    // A place that gets the gradient of another value is that of a node's hooks, which come after.
    for (size_t c = 0; c < crossings.size(); ++c)
      if (const Crossing& from = program_->crossings[c];
          from.place >= 0 && from.next == t && from.value == program_->crossings[static_cast<size_t>(t)].value)
        hooks_.back().emplace(WeakNodePointer(crossings[c].function), crossings[c].input_nr);
  }
}

at::Tensor example_of(const Crossing& crossing, std::span<const c10::IValue> outputs) {
  at::DimVector sizes;
  for (const int64_t size : crossing.sizes)
    sizes.push_back(size >= 0 ? size : outputs[static_cast<size_t>(-1 - size)].toInt());
  return at::empty_strided(sizes, at::DimVector(sizes.size(), 0),
                           at::TensorOptions().dtype(crossing.dtype).device(crossing.device));
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
    // The history of a tensor with hooks may lead to this node, which would keep itself alive.
    const bool has_hooks =
        std::ranges::any_of(program_->crossings, [&](const Crossing& c) { return c.output == s.index; });
    saved_.emplace_back(has_hooks ? t.detach() : t, std::ranges::find(p.results, s.index) != p.results.end());
  }
  for (const int i : program_->sizes) sizes_.push_back(outputs[static_cast<size_t>(i)].toInt());
  if (!program_->again) return;
  for (size_t i = 0; i < in.tensor_count(); ++i) {
    inputs_.push_back(in.tensor(i));
    versions_.push_back(version_of(inputs_.back()));
  }
}

void BackwardNode::release_variables() {
  // Eager frees nothing then, and a pass from another result of the part may follow.
  if (part().saved.empty()) return;
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

namespace {

// Runs after the nodes of leaves, and before those that are older than the node that leads here.
struct DoneNode final : torch::autograd::Node {
  DoneNode(uint64_t number, std::function<void()> f) : Node(number), done(std::move(f)) {}
  std::string name() const override { return "VestaBackwardDone"; }
  variable_list apply(variable_list&&) override {
    done();
    return {};
  }
  std::function<void()> done;
};

}  // namespace

void BackwardNode::when_done(std::function<void()> done) {
  if (part().segments.empty() || !is_last() || done_) return;
  done_ = std::move(done);
  const NodePointer node = make_autograd_node<DoneNode>(sequence_nr(), done_);
  node->add_input_metadata(carrier(at::kCPU));
  next_edges().emplace_back(node, 0);
}

variable_list BackwardNode::apply(variable_list&& given) {
  if (part().segments.empty()) return {};
  const std::lock_guard lock(mutex_);
  const c10::intrusive_ptr<BackwardPass> pass = segment_ == 0 ? begin(std::move(given)) : pass_of(given);
  if (!pass) return variable_list(num_outputs());
  given.clear();
  variable_list out = gradients_of(*pass);
  if (!is_last()) out.push_back(carrier(next_edge(num_outputs() - 1).function->input_metadata(0).device(), pass));
  if (done_) {
    done_();
    out.emplace_back();
  }
  return out;
}

c10::intrusive_ptr<BackwardPass> BackwardNode::begin(variable_list&& tangents) {
  auto pass = c10::make_intrusive<BackwardPass>();
  pass->creates_graph = c10::GradMode::is_enabled();
  const bool plain = std::ranges::all_of(tangents, has_own_elements);
  if (program_->again && (pass->creates_graph || !plain)) {
    pass->gradients = by_program(tangents, pass->creates_graph);
    return pass;
  }
  if (!plain)
    for (at::Tensor& t : tangents)
      if (t.defined() && t.layout() != at::kStrided) t = t.to_dense();
  TORCH_CHECK_NOT_IMPLEMENTED(plain || std::ranges::all_of(tangents, has_own_elements),
                              "a backward pass for many tangents at once (is_grads_batched, torch.vmap) through a "
                              "compiled program that draws random numbers, writes its inputs, calls a "
                              "torch.autograd.Function, or writes to a tensor where autograd does not see it, is not "
                              "implemented");
  if (pass->creates_graph) pass->edges = torch::autograd::collect_next_edges(tangents);
  const at::AutoGradMode off(false);
  const BackwardPart& p = part();
  std::vector<at::Tensor> inputs = take_saved();
  pass->states.assign(strides_.size(), TangentState::Undefined);
  for (size_t i = 0; i < pass->states.size(); ++i)
    if (at::Tensor t = as_result(i < tangents.size() ? tangents[i] : at::Tensor(), i, pass->states[i]); t.defined())
      inputs.push_back(std::move(t));
  tangents.clear();
  pass->sizes = sizes_;
  if (p.segments.size() == 1) {
    pass->inputs = std::move(inputs);
    return pass;
  }
  const auto wires = p.segments[0].wires(pass->states);
  pass->values.resize(wires->values);
  for (size_t i = 0; i < inputs.size(); ++i) pass->values[wires->inputs[i]] = std::move(inputs[i]);
  return pass;
}

// Those of this segment.
variable_list BackwardNode::gradients_of(BackwardPass& pass) const {
  variable_list out;
  if (!pass.gradients.empty()) {
    for (const int i : part().segments[segment_].gradients) out.push_back(pass.gradients[static_cast<size_t>(i)]);
    return out;
  }
  const at::AutoGradMode off(false);
  out = run(pass);
  if (!pass.creates_graph) return out;
  // The gradients are right, and only a derivative of them is refused.
  const NodePointer refused = make_autograd_node<torch::autograd::Error>(
      "double backward through a compiled program that draws random numbers, writes its inputs, calls a "
      "torch.autograd.Function, or writes to a tensor where autograd does not see it, is not implemented",
      torch::autograd::edge_list(pass.edges));
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

std::vector<c10::IValue> BackwardNode::run_program(const BackwardPass& pass, std::vector<at::Tensor> inputs) const {
  const BackwardSegment& segment = part().segments[segment_];
  // A profiler has a range for this node already. Kernels are ranges inside it.
  std::optional<ProfiledLaunches> launches;
  if (at::hasCallbacks()) launches.emplace();
  std::vector<c10::IValue> results;
  if (const std::shared_ptr<const Executable> program = segment.program(pass.states)) {
    CallInputs in{inputs, {}, pass.sizes};
    Addresses addresses;
    std::string why;
    bool accepted = program->accepts(in, nullptr, &addresses);
    if (!accepted) {
      // A tangent begins at an address that a GPU does not read 16 bytes from, or the segment before ran as calls of
      // its operators, whose results may have other strides.
      for (at::Tensor& t : inputs) t = copy_of(t);
      addresses.clear();
      accepted = program->accepts(in, &why, &addresses);
    }
    VESTA_CHECK(accepted || part().segments.size() > 1, "the backward half does not take its own inputs: {}", why);
    if (accepted) {
      in.addresses = {addresses.data(), addresses.size()};
      try {
        fault::reached("backward");
        program->run(in, results, inputs);
        return results;
      } catch (const FailedAfterWriting&) {
        throw;
      } catch (...) {
        // What the run has given up is gone.
        if (!std::ranges::all_of(inputs, &at::Tensor::defined)) throw;
        results.clear();
        segment.failed(pass.states);
      }
    }
  }
  for (at::Tensor& t : segment.by_operators(pass.states, inputs, pass.sizes))
    results.push_back(t.defined() ? c10::IValue(std::move(t)) : c10::IValue());
  return results;
}

// AccumulateGrad keeps a tensor that nobody else has: so the pass holds no gradient any longer than it must.
variable_list BackwardNode::run(BackwardPass& pass) const {
  const BackwardPart& p = part();
  const BackwardSegment& segment = p.segments[segment_];
  variable_list out;
  out.reserve(segment.gradients.size() + 1);
  if (p.segments.size() == 1) {
    std::vector<c10::IValue> results = run_program(pass, std::move(pass.inputs));
    for (const int g : p.gradients) {
      const c10::IValue& v = results[static_cast<size_t>(g)];
      out.push_back(v.isTensor() ? v.toTensor() : at::Tensor());
    }
    return out;
  }
  const std::shared_ptr<const SegmentWires> wires = segment.wires(pass.states);
  std::vector<at::Tensor> inputs;
  inputs.reserve(wires->reads.size());
  for (size_t i = 0; i < wires->reads.size(); ++i) {
    at::Tensor& value = pass.values[wires->reads[i]];
    inputs.push_back(wires->last[i] ? std::move(value) : value);
  }
  std::vector<c10::IValue> results = run_program(pass, std::move(inputs));
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].isTensor()) pass.values[wires->gives[i]] = std::move(results[i]).toTensor();
  for (const int i : segment.gradients) {
    const int64_t id = wires->outputs[static_cast<size_t>(p.gradients[static_cast<size_t>(i)])];
    out.push_back(id < 0 ? at::Tensor() : pass.values[static_cast<size_t>(id)]);
  }
  for (const uint32_t id : wires->drops) pass.values[id].reset();
  return out;
}

torch::autograd::edge_list BackwardNode::edges_of_part() const {
  torch::autograd::edge_list out(part().gradients.size());
  const torch::autograd::Node* node = this;
  for (const BackwardSegment& segment : part().segments) {
    for (size_t i = 0; i < segment.gradients.size(); ++i)
      out[static_cast<size_t>(segment.gradients[i])] = node->next_edge(i);
    if (&segment != &part().segments.back()) node = node->next_edge(segment.gradients.size()).function.get();
  }
  return out;
}

namespace {

// The same elements, whose gradient goes on to the edge. A gradient that is asked for at the edge itself would pass the
// hooks there, which the outer pass calls. `above`: nodes with smaller topological numbers than the new one.
at::Tensor leading_to(const at::Tensor& t, const torch::autograd::Edge& edge,
                      const std::vector<torch::autograd::Edge>& above) {
  const at::Tensor out = t.detach();
  const NodePointer node = make_autograd_node<torch::autograd::Identity>();
  for (const torch::autograd::Edge& e : above) node->update_topological_nr(e);
  node->add_next_edge(edge);
  torch::autograd::set_history(out, node);
  return out;
}

// In the graph of these tensors up to `ends`, edges to a node lead to another one, whose topological number is no
// larger.
void redirect(const variable_list& made, const std::unordered_set<const torch::autograd::Node*>& ends,
              const std::vector<std::pair<torch::autograd::Edge, torch::autograd::Edge>>& moves) {
  std::vector<torch::autograd::Node*> open;
  std::unordered_set<const torch::autograd::Node*> seen = ends;
  const auto follow = [&](torch::autograd::Node* n) {
    if (n && seen.insert(n).second) open.push_back(n);
  };
  for (const at::Tensor& t : made)
    if (t.defined()) follow(t.grad_fn().get());
  while (!open.empty()) {
    torch::autograd::Node* const n = open.back();
    open.pop_back();
    for (size_t i = 0; i < n->num_outputs(); ++i) {
      const auto move = std::ranges::find(moves, n->next_edge(i), [](const auto& m) { return m.first; });
      if (move != moves.end()) n->next_edges()[i] = move->second;
      follow(n->next_edge(i).function.get());
    }
  }
}

// A third derivative comes here: what nodes have saved of the tensor does not lead to its hooks.
struct RefusesGradients final : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& gradients) override {
    TORCH_CHECK_NOT_IMPLEMENTED(std::ranges::none_of(gradients, [](const at::Tensor& t) { return t.defined(); }),
                                "a third derivative through a hook on a tensor of a compiled program, whose operator "
                                "has saved its own result, is not implemented");
    return gradients;
  }
};

}  // namespace

// The pass creates a graph: the program runs once more, by its own operators, which have derivatives.
variable_list BackwardNode::by_program(const variable_list& tangents, bool creates_graph) {
  using torch::autograd::Edge;
  const at::AutoGradMode on(true);
  TORCH_CHECK(!is_released_, torch::autograd::ERR_BACKWARD_TWICE);
  for (size_t i = 0; i < inputs_.size(); ++i)
    TORCH_CHECK(version_of(inputs_[i]) == versions_[i],
                "one of the variables needed for gradient computation has been modified by an inplace operation: an "
                "input of a compiled program");
  const BackwardPart& p = part();
  const auto crossing = [&](int c) -> const Crossing& { return program_->crossings[static_cast<size_t>(c)]; };
  variable_list results, given, inputs = inputs_, asked;
  const torch::autograd::edge_list edges = edges_of_part();
  std::unordered_set<const torch::autograd::Node*> ends;
  for (const Edge& e : edges) ends.insert(e.function.get());
  std::vector<Edge> hooks;  // by crossing that the part takes
  for (const auto& h : hooks_) hooks.emplace_back(h ? h->first.lock() : NodePointer(), h ? h->second : 0);
  for (size_t i = 0; i < p.inputs.size(); ++i) {
    at::Tensor& t = inputs[static_cast<size_t>(p.inputs[i])];
    asked.push_back(t = leading_to(t, edges[i], hooks));
  }
  Differentiable::Given start;
  for (const int c : p.gives) start.outputs.push_back(crossing(c).value);
  asked.resize(p.inputs.size() + p.gives.size());
  start.with_history = [&](size_t i, const at::Tensor& t) {
    const size_t at = p.inputs.size() + i;
    return asked[at] = leading_to(t, edges[at], hooks);
  };
  std::vector<int> outputs = p.results;
  for (const int c : p.takes) outputs.push_back(crossing(c).value);
  const std::vector<at::Tensor> again = program_->again(inputs, sizes_, outputs, start);
  std::vector<std::pair<Edge, Edge>> moves;
  for (size_t i = 0; i < again.size(); ++i) {
    if (i >= tangents.size() || !tangents[i].defined() || !again[i].requires_grad()) continue;
    results.push_back(again[i]);
    given.push_back(tangents[i]);
    if (tangents[i].requires_grad()) ends.insert(torch::autograd::impl::gradient_edge(tangents[i]).function.get());
    if (i >= p.results.size() && hooks[i - p.results.size()].is_valid())
      moves.emplace_back(torch::autograd::impl::gradient_edge(again[i]), hooks[i - p.results.size()]);
  }
  if (results.empty()) return variable_list(asked.size());
  variable_list out = torch::autograd::grad(results, asked, given, /*retain_graph=*/creates_graph, creates_graph,
                                            /*allow_unused=*/true);
  // What a node has saved of its own result leads to the tensor with the hooks, as in eager.
  if (creates_graph && !moves.empty()) redirect(out, ends, moves);
  if (creates_graph)
    for (const auto& [from, to] : moves) from.function->add_pre_hook(std::make_unique<RefusesGradients>());
  return out;
}

}  // namespace vesta::runtime
