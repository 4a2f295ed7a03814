#include "runtime/cuda/recording.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "artifact/uses.h"
#include "base/check.h"
#include "base/memory_plan.h"
#include "runtime/cuda/record.h"
#include "runtime/device_launch.h"
#include "runtime/runner.h"

namespace vesta::runtime {

using artifact::Role;

namespace {

// The address of a buffer that no launch has asked for yet.
const char kNowhere = 0;

// Less than this is kept for all runs: PyTorch's allocator would keep as much for them.
constexpr int64_t kKept = int64_t{1} << 20;

int64_t given_bytes_of(const GraphPlan& plan, int64_t bytes) { return plan.gives_memory && bytes > kKept ? bytes : 0; }

int64_t bytes_of(const at::Tensor& t) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()));
}

}  // namespace

Recording::Recording(const artifact::Artifact& a, std::shared_ptr<const Resolved> sizes, const CallInputs& in,
                     std::span<const at::Tensor> prepacked, const GivenMemory& given, GraphPlan plan,
                     const std::set<int>& copied, ReplayStream& on)
    : artifact_(a),
      sizes_(std::move(sizes)),
      plan_(std::move(plan)),
      on_(on),
      owner_(on.is_shared() || !calls_operators(a) ? 0 : thread_number()),
      graph_at_(plan_.direct.size(), -1),
      graphs_(plan_.graphs.size()),
      own_(a.buffers.size()),
      copies_(in.arguments.size()) {
  const ArenaLayout& layout = sizes_->arena;
  const std::array<int64_t, kWorkMemories> per_run = given_bytes(plan_, layout);
  const auto arena = [&](WorkMemory which, int64_t bytes) {
    if (per_run[static_cast<size_t>(which)] > 0)
      note_given(which, given);
    else
      memory_[static_cast<size_t>(which)] = on.memory(which, std::max(bytes, kArenaAlignment));
  };
  arena(WorkMemory::Arena, layout.kept_bytes);
  if (layout.early_end > 0) arena(WorkMemory::EarlyArena, layout.early_bytes);
  for (size_t b = 0; b < a.buffers.size(); ++b) {
    const artifact::Buffer& buffer = a.buffers[b];
    if (buffer.role != Role::Input && buffer.role != Role::Prepacked) continue;
    if (buffer.role == Role::Input && copied.count(buffer.input) != 0) {
      const auto input = static_cast<size_t>(buffer.input);
      if (std::ranges::none_of(copied_, [&](const Copied& c) { return c.input == input; }))
        copied_.push_back({input, static_cast<int>(b)});
    } else if (plan_.addresses[b] == Address::Fixed) {
      const bool is_input = buffer.role == Role::Input;
      fixed_.push_back({static_cast<int>(b), is_input ? buffer.input : -1,
                        is_input ? in.addresses[static_cast<size_t>(buffer.input)] : prepacked[b].const_data_ptr()});
    }
  }
  make_copies();
  VESTA_CHECK(given.buffers == plan_.given, "{} outputs are given, the plan has {}", given.buffers.size(),
              plan_.given.size());
  for (const at::Tensor& t : given.tensors) given_.push_back(t.const_data_ptr());
  for (size_t g = 0; g < plan_.graphs.size(); ++g) {
    graphs_[g].steps = plan_.graphs[g];
    graph_at_[static_cast<size_t>(plan_.graphs[g].begin)] = static_cast<int>(g);
  }
  std::set<int> last;
  for (size_t i = static_cast<size_t>(plan_.last_calls); i < plan_.direct.size(); ++i)
    artifact::for_each_use(a.steps[i], [&](int b, uint8_t, bool) { last.insert(b); });
  if (!last.empty()) last_calls_ = std::make_unique<LastCalls>(on, std::vector<int>(last.begin(), last.end()));
}

std::array<int64_t, kWorkMemories> Recording::given_bytes(const GraphPlan& plan, const ArenaLayout& layout) {
  return {given_bytes_of(plan, layout.kept_bytes), layout.early_end > 0 ? given_bytes_of(plan, layout.early_bytes) : 0};
}

void Recording::note_given(WorkMemory which, const GivenMemory& given) {
  given_work_[static_cast<size_t>(which)] = {given.of(which).data(), given.bytes(which)};
}

const c10::Storage& Recording::work(WorkMemory which, const GivenMemory& given) const {
  const auto& own = memory_[static_cast<size_t>(which)];
  return own ? own->storage() : given.of(which);
}

bool Recording::fits(const CallInputs& in, std::span<const at::Tensor> prepacked, const GivenMemory& given,
                     std::set<int>* other) const {
  bool same = given.buffers == plan_.given;
  for (size_t i = 0; same && i < given_.size(); ++i) same = given.tensors[i].const_data_ptr() == given_[i];
  for (size_t i = 0; same && i < kWorkMemories; ++i)
    same = given_work_[i].bytes == 0 || (given.work[i] && given.work[i].data() == given_work_[i].address &&
                                         static_cast<int64_t>(given.work[i].nbytes()) == given_work_[i].bytes);
  if (!same && !other) return false;
  for (const Fixed& f : fixed_) {
    const void* const now = f.input >= 0 ? in.addresses[static_cast<size_t>(f.input)]
                                         : prepacked[static_cast<size_t>(f.buffer)].const_data_ptr();
    if (now == f.address) continue;
    same = false;
    if (!other) break;
    other->insert(f.buffer);
  }
  return same;
}

void Recording::make_copies() {
  if (copied_.empty()) return;
  int64_t end = 0;
  for (Copied& c : copied_) {
    const ResolvedTensor& type = sizes_->buffers[static_cast<size_t>(c.buffer)];
    c.offset = end;
    c.bytes = type.empty ? 0 : at::detail::computeStorageNbytes(type.sizes, type.strides, c10::elementSize(type.dtype));
    end += (static_cast<int64_t>(c.bytes) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
  }
  auto& copies = memory_[static_cast<size_t>(WorkMemory::Copies)];
  copies = on_.memory(WorkMemory::Copies, std::max(end, kArenaAlignment));
  const c10::Storage& storage = copies->storage();
  for (const Copied& c : copied_) {
    const ResolvedTensor& type = sizes_->buffers[static_cast<size_t>(c.buffer)];
    copies_[c.input] = type.empty
                           ? allocate_tensor(type)
                           : window(storage, type, c.offset / static_cast<int64_t>(c10::elementSize(type.dtype)));
  }
}

bool Recording::is_for_this_thread() const { return owner_ == 0 || owner_ == thread_number(); }

void Recording::copy_inputs(const CallInputs& in) const {
  for (const Copied& c : copied_)
    if (c.bytes > 0)
      machine::copy_on_device(copies_[c.input].mutable_data_ptr(), in.addresses[c.input], c.bytes, on_.stream());
}

CallInputs Recording::with_copies(const CallInputs& in) {
  if (copied_.empty()) return in;
  inputs_.assign(in.arguments.begin(), in.arguments.end());
  addresses_.assign(in.addresses.begin(), in.addresses.end());
  for (const Copied& c : copied_) {
    inputs_[c.input] = copies_[c.input];
    addresses_[c.input] = copies_[c.input].const_data_ptr();
  }
  return {inputs_, in.bound, in.integers, {addresses_.data(), addresses_.size()}};
}

void Recording::forget_inputs() { inputs_.clear(); }

void Recording::lend_memory(Workspace& workspace, const GivenMemory& given) const {
  workspace.lend(work(WorkMemory::Arena, given), work(WorkMemory::EarlyArena, given));
  for (const int b : lent_) {
    const auto i = static_cast<size_t>(b);
    const ResolvedTensor& type = sizes_->buffers[i];
    at::Tensor own = type.empty ? allocate_tensor(type) : window(work(WorkMemory::Calls, given), type, *own_[i]);
    workspace.pointers[i] = const_cast<void*>(own.const_data_ptr());
    workspace.set(b, std::move(own));
  }
}

void RecordedGraph::forget_places() {
  for (Place& place : places) {
    place.last = &kNowhere;
    for (size_t u = place.first_use; u < place.end; ++u)
      kernels[uses[u].kernel].arguments[uses[u].argument] = const_cast<char*>(&kNowhere);
  }
}

void Recording::find_moved(const CallInputs& in, std::span<void*> pointers) {
  for (size_t i = 0; i < found_.size(); ++i) {
    if (found_[i] == in.addresses[i]) continue;
    found_[i] = in.addresses[i];
    if (has_moved_[i]) continue;
    has_moved_[i] = true;
    moved_.push_back(static_cast<int>(i));
  }
  for (const int i : moved_)
    for (const int b : input_buffers_[static_cast<size_t>(i)])
      pointers[static_cast<size_t>(b)] = memory_at(in, static_cast<size_t>(i));
}

void Recording::forget_moved() {
  for (const int i : moved_) has_moved_[static_cast<size_t>(i)] = false;
  moved_.clear();
}

void Recording::update(RecordedGraph& g, RecordedGraph::Place& place, std::span<void* const> pointers) {
  void* const base = pointers[static_cast<size_t>(place.buffer)];
  if (base == place.last && !place.is_number) return;
  place.last = base;
  const artifact::Buffer& buffer = artifact_.buffers[static_cast<size_t>(place.buffer)];
  for (size_t u = place.first_use; u < place.end; ++u) {
    const RecordedGraph::Use& use = g.uses[u];
    void*& argument = g.kernels[use.kernel].arguments[use.argument];
    void* const now = argument_for(buffer, static_cast<char*>(base) + use.offset);
    if (argument == now) continue;
    argument = now;
    g.changed.push_back(use.kernel);
  }
}

void Recording::launch(RecordedGraph& g, std::span<void* const> pointers) {
  g.changed.clear();
  for (const size_t p : g.other_places) update(g, g.places[p], pointers);
  for (const int i : moved_)
    for (const size_t p : g.input_places[static_cast<size_t>(i)]) update(g, g.places[p], pointers);
  std::sort(g.changed.begin(), g.changed.end());
  g.changed.erase(std::unique(g.changed.begin(), g.changed.end()), g.changed.end());
  try {
    for (const size_t i : g.changed) {
      KernelNode& k = g.kernels[i];
      DeviceArguments arguments = arguments_of(k.arguments.data(), k.arguments.size(), *k.launch);
      g.graph->set_arguments(k.node, *k.kernel, k.shape, arguments.data());
    }
  } catch (...) {
    g.forget_places();
    std::fill(found_.begin(), found_.end(), &kNowhere);  // every input has moved
    throw;
  }
  g.graph->launch(on_.stream());
}

size_t Recording::nodes() const {
  size_t nodes = 0;
  for (const RecordedGraph& g : graphs_)
    if (g.graph) nodes += g.graph->nodes();
  return nodes;
}

int64_t Recording::bytes() const {
  int64_t bytes = 0;
  for (const auto& memory : memory_)
    if (memory) bytes += memory->bytes();
  return bytes;
}

char* Recording::make_blocks(int64_t bytes, GivenMemory& given) {
  if (given_bytes_of(plan_, bytes) == 0) {
    auto& calls = memory_[static_cast<size_t>(WorkMemory::Calls)];
    calls = on_.memory(WorkMemory::Calls, std::max(bytes, kArenaAlignment));
    return calls->data();
  }
  if (given.bytes(WorkMemory::Calls) != bytes) {
    given.work[static_cast<size_t>(WorkMemory::Calls)] = c10::Storage();
    given.work[static_cast<size_t>(WorkMemory::Calls)] = storage_of(bytes, on_.device());
  }
  note_given(WorkMemory::Calls, given);
  return static_cast<char*>(given.of(WorkMemory::Calls).mutable_data());
}

void Recording::add(int first_step, RecordedGraph graph) {
  RecordedGraph& g = *graph_at(first_step);
  g.graph = std::move(graph.graph);
  g.kernels = std::move(graph.kernels);
  g.input_places.resize(artifact_.inputs.size());
  std::map<int, std::vector<RecordedGraph::Use>> uses;  // by buffer
  for (size_t k = 0; k < g.kernels.size(); ++k)
    for (const KernelNode::Moving& m : g.kernels[k].moving) uses[m.buffer].push_back({k, m.argument, m.offset});
  for (const auto& [b, of_buffer] : uses) {
    const bool is_number = artifact_.buffers[static_cast<size_t>(b)].type.device.type == DeviceType::CPU;
    const artifact::Buffer& buffer = artifact_.buffers[static_cast<size_t>(b)];
    if (buffer.role == Role::Input && !is_number) {
      g.input_places[static_cast<size_t>(buffer.input)].push_back(g.places.size());
    } else {
      g.other_places.push_back(g.places.size());
    }
    g.places.push_back({b, is_number, &kNowhere, g.uses.size(), g.uses.size() + of_buffer.size()});
    g.uses.insert(g.uses.end(), of_buffer.begin(), of_buffer.end());
  }
}

void Recording::finish(const BoundProgram& program) {
  std::vector<bool> needed(artifact_.buffers.size(), false);
  const auto need = [&](int b) {
    if (b >= 0) needed[static_cast<size_t>(b)] = true;
  };
  for (size_t i = 0; i < program.steps().size(); ++i) {
    if (i < plan_.direct.size() ? plan_.direct[i].empty() : program.steps()[i].copied) continue;
    artifact::for_each_use(artifact_.steps[i], [&](int b, uint8_t, bool) { need(b); });
  }
  for (const artifact::Output& o : artifact_.outputs) need(o.view.buffer);
  found_.assign(artifact_.inputs.size(), &kNowhere);
  has_moved_.assign(artifact_.inputs.size(), false);
  input_buffers_.resize(artifact_.inputs.size());
  for (const RecordedGraph& g : graphs_) {
    for (const size_t p : g.other_places) need(g.places[p].buffer);
    for (size_t i = 0; i < g.input_places.size(); ++i)
      for (const size_t p : g.input_places[i]) input_buffers_[i].push_back(g.places[p].buffer);
  }
  const auto is_needed = [&](int b) { return needed[static_cast<size_t>(b)]; };

  const Standing& all = program.standing();
  std::copy_if(all.arena.begin(), all.arena.end(), std::back_inserter(standing_.arena), is_needed);
  std::copy_if(all.prepacked.begin(), all.prepacked.end(), std::back_inserter(standing_.prepacked), is_needed);
  std::copy_if(all.inputs.begin(), all.inputs.end(), std::back_inserter(standing_.inputs),
               [&](const auto& buffer) { return is_needed(buffer.first); });
  for (size_t b = 0; b < own_.size(); ++b)
    if (own_[b] && needed[b]) lent_.push_back(static_cast<int>(b));

  for (RecordedGraph& g : graphs_) {
    for (int i = g.steps.begin; i < g.steps.end; ++i) {
      const BoundStep& step = program.steps()[static_cast<size_t>(i)];
      for (int b : step.allocate)
        if (!is_given(b) && (!is_own(b) || !own_[static_cast<size_t>(b)])) g.allocate.push_back(b);
      for (int b : step.release)
        if (!is_own(b) || is_needed(b)) g.release.push_back(b);
      g.release_inputs.insert(g.release_inputs.end(), step.release_inputs.begin(), step.release_inputs.end());
      g.ends_early |= i + 1 == sizes_->arena.early_end;
      g.mutates |= static_cast<size_t>(i) == program.first_mutation();
    }
  }
  finished_ = true;
}

void Recording::set_own(int buffer, const at::Tensor& made, const GivenMemory& given) {
  const ResolvedTensor& type = sizes_->buffers[static_cast<size_t>(buffer)];
  const c10::Storage& blocks = work(WorkMemory::Calls, given);
  const auto at = static_cast<const char*>(made.const_data_ptr()) - static_cast<const char*>(blocks.data());
  const bool inside = at >= 0 && at + bytes_of(made) <= static_cast<int64_t>(blocks.nbytes());
  VESTA_CHECK(inside || type.empty, "its result is memory that it did not allocate");
  own_[static_cast<size_t>(buffer)] = at / static_cast<int64_t>(c10::elementSize(type.dtype));
}

}  // namespace vesta::runtime
