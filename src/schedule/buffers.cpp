// Decides in which buffers values lie, and which views of buffers ATen calls get.
#include <algorithm>

#include "base/check.h"
#include "schedule/planner.h"

namespace vesta::schedule {

using graph::TensorType;
using graph::Value;

TensorType Planner::storage_type(const Value* v) const {
  TensorType t = v->type;
  if (!graph::is_non_overlapping_and_dense(t)) t.strides = graph::contiguous_strides(t.sizes);
  return t;
}

namespace {

constexpr int64_t kLineBytes = 64;

// The elements from the first to one past the last.
Expr extent_of(const TensorType& t) {
  if (graph::is_contiguous(t)) return graph::numel(t);
  Expr last = 0;
  for (size_t d = 0; d < t.dim(); ++d) {
    if (t.sizes[d].is_constant(0)) return 0;
    last = last + (t.sizes[d] - 1) * t.strides[d];
  }
  return last + 1;
}

}  // namespace

// The alignment that kernels may assume. Large memory of ours is aligned, whatever allocator PyTorch uses.
int64_t Planner::alignment_of(const Buffer& b) const {
  const int64_t element = element_size(b.type.dtype);
  if (b.type.device.type != DeviceType::CPU)
    return b.role == BufferRole::Input
               ? std::max(graph_.inputs[static_cast<size_t>(b.input)].alignment, element_size(real_of(b.type.dtype)))
               : kDeviceAlignment;
  if (b.role != BufferRole::Output && b.role != BufferRole::Arena) return element_size(real_of(b.type.dtype));
  const Expr bytes = graph::numel(b.type) * element;
  const bool large = bytes.is_constant() && bytes.constant() >= options_.target.l2_bytes;
  return large ? kLineBytes : element_size(real_of(b.type.dtype));
}

int Planner::add_buffer(Buffer b, const Value* v) {
  int id = static_cast<int>(plan_.buffers.size());
  const auto mutates = [&](const graph::Mutation& m) { return static_cast<int>(m.input) == b.input; };
  const bool constant =
      b.role == BufferRole::Prepacked ||
      (b.role == BufferRole::Input && std::none_of(graph_.mutations.begin(), graph_.mutations.end(), mutates));
  loops::MemoryRef memory{
      {id, real_of(b.type.dtype), extent_of(b.type), alignment_of(b), b.type.device.type, false, constant},
      b.type.strides,
      0};
  if (is_complex(b.type.dtype)) {
    memory.buffer.extent = memory.buffer.extent * 2;
    for (Expr& s : memory.strides) s = s * 2;
  }
  placement_.memory.push_back(std::move(memory));
  plan_.buffers.push_back(std::move(b));
  if (v) placement_.of_value[v->id] = id;
  return id;
}

void Planner::assign_buffers() {
  placement_.of_value.assign(graph_.value_count(), -1);
  placement_.of_node.assign(fusion_.nodes.size(), -1);
  const size_t most = graph_.inputs.size() + fusion_.nodes.size();
  placement_.memory.reserve(most);
  plan_.buffers.reserve(most);
  for (size_t i = 0; i < graph_.inputs.size(); ++i) {
    const Value* v = graph_.inputs[i].value;
    add_buffer({.role = BufferRole::Input, .type = v->type, .input = static_cast<int>(i)}, v);
  }
  // Outputs that are computed directly into the caller's tensors.
  std::unordered_map<const Value*, int> given;
  std::unordered_map<int, int> given_copy;
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const graph::Output& o = graph_.outputs[i];
    if (o.kind != graph::OutputKind::Fresh) continue;
    if (int c = fusion_.output_copy[i]; c >= 0) {
      given_copy[c] = static_cast<int>(i);
    } else {
      given.emplace(fusion_.base_of(o.value), static_cast<int>(i));
    }
  }

  // Values that another group, an ATen call, an output or a mutation reads.
  std::vector<char> wanted(graph_.value_count(), 0);  // by value id
  auto want = [&](const Value* v) {
    if (fusion_.scheduler_node_of(v) >= 0) wanted[v->id] = 1;
  };
  for (const SchedulerNode& u : fusion_.nodes) {
    if (u.inlined || u.group < 0) continue;
    for (const Read& r : u.reads) {
      if (r.base && r.node >= 0 && fusion_.nodes[r.node].group != u.group) want(r.base);
    }
  }
  for (size_t i = 0; i < graph_.mutations.size(); ++i) {
    if (fusion_.mutation_copy[i] < 0) want(fusion_.base_of(graph_.mutations[i].value));
  }
  for (const auto& [v, i] : given) want(v);

  for (size_t i = 0; i < fusion_.nodes.size(); ++i) {
    const SchedulerNode& u = fusion_.nodes[i];
    if (u.inlined || u.group < 0) continue;
    if (u.kind == SchedulerNodeKind::Partial) {
      Buffer b;
      b.role = u.prepacked ? BufferRole::Prepacked : BufferRole::Arena;
      b.type.dtype = u.shape.compute;
      b.type.device = u.node->input(0)->type.device;
      b.type.sizes = {Expr(u.chunks)};
      for (size_t d = 0; d < u.operand_sizes.size(); ++d) {
        if (!u.operand_reduced[d] && d != static_cast<size_t>(u.split_dim)) b.type.sizes.push_back(u.operand_sizes[d]);
      }
      b.type.strides = graph::contiguous_strides(b.type.sizes);
      placement_.of_node[i] = add_buffer(std::move(b), nullptr);
      continue;
    }
    if (u.kind == SchedulerNodeKind::Assert) continue;
    if (u.kind == SchedulerNodeKind::Check) {
      Buffer b;
      b.type.dtype = DType::Bool;
      if (u.split_dim >= 0) {
        b.type.sizes = {Expr(u.chunks)};
        b.type.strides = {Expr(1)};
      }
      placement_.of_node[i] = add_buffer(std::move(b), nullptr);
      continue;
    }
    if (u.kind == SchedulerNodeKind::Copy && u.into) continue;
    if (u.kind == SchedulerNodeKind::Copy) {
      Buffer b;
      b.type = storage_type(u.value);
      if (u.is_call()) b.role = BufferRole::Returned;
      auto it = given_copy.find(static_cast<int>(i));
      if (it != given_copy.end()) {
        b.role = BufferRole::Output;
        b.output = it->second;
        b.type = u.value->type;
      }
      placement_.of_node[i] = add_buffer(std::move(b), nullptr);
      continue;
    }
    for (const Value* v : u.node->results) {
      if (!v || fusion_.scheduler_node_of(v) != static_cast<int>(i)) continue;
      auto out = given.find(v);
      if (u.kind == SchedulerNodeKind::Extern) {
        if (!wanted[v->id] && out == given.end() && !graph_.is_used(v)) continue;
        add_buffer({.role = u.prepacked ? BufferRole::Prepacked : BufferRole::Returned, .type = v->type}, v);
        continue;
      }
      if (int m = fusion_.mutation_in_place(v); m >= 0) {
        placement_.of_value[v->id] = graph_.mutations[m].input;
        continue;
      }
      if (!wanted[v->id]) continue;
      Buffer b;
      b.type = storage_type(v);
      if (u.prepacked) {
        b.role = BufferRole::Prepacked;
      } else if (out != given.end()) {
        b.role = BufferRole::Output;
        b.output = out->second;
        b.type = v->type;
      }
      add_buffer(std::move(b), v);
    }
  }
}

BufferView Planner::window(const Value* v) {
  BufferView w;
  const Value* base = fusion_.base_of(v);
  const int b = w.buffer = placement_.of_value[base->id];
  VESTA_CHECK(b >= 0, "%{} is in no buffer", base->id);
  w.sizes = v->type.sizes;
  w.dtype = v->type.dtype;
  const bool complex = is_complex(v->type.dtype);
  // An offset in elements of v's dtype. `part` of a complex number counts from a view of the parts.
  auto offset_at = [&](std::vector<Expr> index) {
    Expr part = 0;
    for (const Value* x = v; x != base; x = x->producer->input(0)) {
      if (is_complex(x->producer->input(0)->type.dtype) && !is_complex(x->type.dtype)) part = index.back();
      index = x->producer->op->row->view(x->producer->named(), x->type, index);
    }
    const Expr offset = loops::offset_of(placement_.memory[b], index) + part;
    return complex ? floordiv(offset, 2) : offset;
  };
  w.offset = v == base ? Expr(0) : offset_at(std::vector<Expr>(v->type.dim(), Expr(0)));
  if (plan_.buffers[b].type.strides == base->type.strides) {
    w.strides = v->type.strides;  // the buffer has eager's layout, and so have views of it
    return w;
  }
  if (v == base) {
    w.strides = plan_.buffers[b].type.strides;
    return w;
  }
  std::vector<Expr> probes;
  for (size_t d = 0; d < v->type.dim(); ++d) probes.push_back(fusion_.dim_symbol(96 + d, v->type.sizes[d]));
  Expr e = offset_at(probes);
  for (Expr p : probes) {
    auto c = coefficient_of(e, p);
    if (!c) VESTA_UNSUPPORTED("a view of %{} is not a strided window on its buffer", base->id);
    w.strides.push_back(*c);
  }
  return w;
}

}  // namespace vesta::schedule
