#include "runtime/cuda/recording.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "base/check.h"
#include "base/memory_plan.h"
#include "runtime/device_launch.h"
#include "runtime/runner.h"

namespace vesta::runtime {

using artifact::Role;

namespace {

const void* address_of(const artifact::Buffer& buffer, int number, const CallInputs& in,
                       std::span<const at::Tensor> derived) {
  return buffer.role == Role::Input ? in.tensor(static_cast<size_t>(buffer.input)).const_data_ptr()
                                    : derived[static_cast<size_t>(number)].const_data_ptr();
}

size_t bytes_of(const at::Tensor& t) { return at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()); }

}  // namespace

Recording::Recording(const artifact::Artifact& a, std::shared_ptr<const Resolved> sizes, const CallInputs& in,
                     std::span<const at::Tensor> derived, GraphPlan plan, const std::set<int>& copied, ReplayStream& on)
    : artifact_(a),
      sizes_(std::move(sizes)),
      plan_(std::move(plan)),
      on_(on),
      graphs_(plan_.direct.size()),
      own_(a.buffers.size()),
      copies_(in.arguments.size()) {
  const ArenaLayout& layout = sizes_->arena;
  arena_ = on.arena(std::max(layout.kept_bytes, kArenaAlignment));
  if (layout.early_end > 0) early_ = on.early_arena(std::max(layout.early_bytes, kArenaAlignment));
  for (size_t b = 0; b < a.buffers.size(); ++b) {
    const artifact::Buffer& buffer = a.buffers[b];
    if (buffer.role != Role::Input && buffer.role != Role::Derived) continue;
    if (buffer.role == Role::Input && copied.count(buffer.input) != 0) {
      copies_[static_cast<size_t>(buffer.input)] = allocate_tensor(sizes_->buffers[b]);
    } else if (plan_.addresses[b] == Address::Fixed) {
      fixed_.emplace_back(static_cast<int>(b), address_of(buffer, static_cast<int>(b), in, derived));
    }
  }
  for (size_t i = 0; i < plan_.direct.size(); ++i) ends_.push_back(static_cast<int>(i));
  for (const GraphPlan::Range& g : plan_.graphs) ends_[static_cast<size_t>(g.begin)] = g.end;
}

bool Recording::fits(const CallInputs& in, std::span<const at::Tensor> derived, std::set<int>* other) const {
  bool same = true;
  for (const auto& [buffer, address] : fixed_) {
    if (address_of(artifact_.buffers[static_cast<size_t>(buffer)], buffer, in, derived) == address) continue;
    same = false;
    if (!other) break;
    other->insert(buffer);
  }
  return same;
}

CallInputs Recording::with_copies(const CallInputs& in, bool copy) {
  if (std::none_of(copies_.begin(), copies_.end(), [](const at::Tensor& t) { return t.defined(); })) return in;
  inputs_.assign(in.arguments.begin(), in.arguments.end());
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (!copies_[i].defined()) continue;
    if (copy)
      machine::copy_on_device(copies_[i].mutable_data_ptr(), in.arguments[i].const_data_ptr(), bytes_of(copies_[i]),
                              on_.stream());
    inputs_[i] = copies_[i];
  }
  return {inputs_, in.bound, in.integers};
}

void Recording::forget_inputs() { inputs_.clear(); }

void Recording::lend_memory(Workspace& workspace) const {
  workspace.lend(arena_->storage(), early_ ? early_->storage() : c10::Storage());
  for (size_t b = 0; b < own_.size(); ++b) {
    if (!own_[b].defined()) continue;
    workspace.tensors[b] = own_[b];
    workspace.pointers[b] = const_cast<void*>(own_[b].const_data_ptr());
  }
}

void Recording::launch(int step, std::span<void* const> pointers) {
  RecordedGraph& g = graphs_[static_cast<size_t>(step)];
  for (KernelNode& k : g.kernels) {
    bool changed = false;
    for (const KernelNode::Moving& m : k.moving) {
      void* const at = static_cast<char*>(pointers[static_cast<size_t>(m.buffer)]) + m.offset;
      void* const now = argument_for(artifact_.buffers[static_cast<size_t>(m.buffer)], at);
      changed |= k.arguments[m.argument] != now;
      k.arguments[m.argument] = now;
    }
    if (!changed) continue;
    DeviceArguments arguments = arguments_of(k.arguments.data(), k.arguments.size(), *k.launch);
    g.graph->set_arguments(k.node, *k.kernel, k.shape, arguments.data());
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
  int64_t bytes = arena_->bytes() + (early_ ? early_->bytes() : 0) + (blocks_ ? blocks_->bytes() : 0);
  for (const at::Tensor& t : copies_)
    if (t.defined()) bytes += static_cast<int64_t>(bytes_of(t));
  return bytes;
}

void Recording::add(int first_step, RecordedGraph graph) {
  graphs_[static_cast<size_t>(first_step)] = std::move(graph);
}

void Recording::set_own(int buffer, const at::Tensor& made) {
  const ResolvedTensor& type = sizes_->buffers[static_cast<size_t>(buffer)];
  const auto* const begin = static_cast<const char*>(made.const_data_ptr());
  const auto at = begin - blocks_->data();
  const bool inside = at >= 0 && at + static_cast<int64_t>(bytes_of(made)) <= blocks_->bytes();
  VESTA_CHECK(inside || type.empty, "its result is memory that it did not allocate");
  const auto item = static_cast<int64_t>(c10::elementSize(type.dtype));
  own_[static_cast<size_t>(buffer)] = type.empty ? allocate_tensor(type) : window(blocks_->storage(), type, at / item);
}

}  // namespace vesta::runtime
