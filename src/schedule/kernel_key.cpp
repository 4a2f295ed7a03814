#include "schedule/kernel_key.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash_mix.h"

namespace vesta::schedule {

using graph::Node;
using graph::Value;

namespace {

template <class T>
size_t position(const std::vector<T>& list, const T& wanted, std::string_view what) {
  const auto it = std::find(list.begin(), list.end(), wanted);
  VESTA_CHECK(it != list.end(), "a kernel uses a {} that its group does not reach", what);
  return static_cast<size_t>(it - list.begin());
}

uint64_t bits(Device d) { return static_cast<uint64_t>(d.type) << 8 | static_cast<uint8_t>(d.index); }

}  // namespace

size_t KernelKey::number_of(int buffer) const { return position(buffers, buffer, "buffer"); }
size_t KernelKey::number_of(const Node* node) const { return position(nodes, node, "node"); }

size_t KernelKeyHash::operator()(const KernelKey& key) const {
  size_t h = key.facts.size();
  for (const uint64_t fact : key.facts) h = mix_hash(h, fact);
  for (const Expr e : key.sizes) h = mix_hash(h, e.hash());
  return h;
}

void KernelKeys::add(const std::vector<Expr>& sizes) {
  add(sizes.size());
  key_.sizes.insert(key_.sizes.end(), sizes.begin(), sizes.end());
}

void KernelKeys::add(const graph::TensorType& type) {
  add(static_cast<uint64_t>(type.dtype) << 16 | bits(type.device));
  add(type.sizes);
  add(type.strides);
}

void KernelKeys::add(std::string_view text) {
  add(text.size());
  for (size_t i = 0; i < text.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    for (const char c : text.substr(i, sizeof(uint64_t))) word = word << 8 | static_cast<uint8_t>(c);
    add(word);
  }
}

void KernelKeys::add(const graph::Arg& arg) {
  add(arg.index());
  std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const auto real = [&](double d) { add(std::bit_cast<uint64_t>(d)); };
        if constexpr (std::is_same_v<T, graph::None>) {
        } else if constexpr (std::is_same_v<T, double>) {
          real(x);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          real(x.real());
          real(x.imag());
        } else if constexpr (std::is_same_v<T, std::string>) {
          add(std::string_view(x));
        } else if constexpr (std::is_same_v<T, Device>) {
          add(bits(x));
        } else if constexpr (std::is_same_v<T, graph::ValueList>) {
          add(x.size());
          for (const Value* v : x) add(v);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          add(x.size());
          std::for_each(x.begin(), x.end(), real);
        } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
          add(x.size());
          for (const bool b : x) add(uint64_t{b});
        } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T>) {
          add(static_cast<uint64_t>(x));
        } else {
          add(x);
        }
      },
      arg);
}

void KernelKeys::add_buffer(int buffer) {
  if (buffer < 0) return add(uint64_t{0});
  const auto it = std::find(key_.buffers.begin(), key_.buffers.end(), buffer);
  add(static_cast<uint64_t>(it - key_.buffers.begin()) + 1);
  if (it != key_.buffers.end()) return;
  key_.buffers.push_back(buffer);
  const loops::MemoryRef& memory = placement_.memory[static_cast<size_t>(buffer)];
  const loops::DagBuffer& b = memory.buffer;
  add(static_cast<uint64_t>(b.dtype) << 16 | static_cast<uint64_t>(b.device) << 8 | uint64_t{b.written} << 1 |
      uint64_t{b.constant});
  add(static_cast<uint64_t>(b.alignment));
  add(b.extent);
  add(memory.strides);
  add(memory.offset);
}

// Whether the group computes v, or what v is a view of.
bool KernelKeys::is_computed(const Value* v) const {
  const int p = fusion_.scheduler_node_of(v);
  return p == -2 || (p >= 0 && (fusion_.nodes[p].inlined || fusion_.nodes[p].group == group_));
}

// Adds the number of what has this id. Returns whether the group reaches it for the first time.
bool KernelKeys::number(std::vector<uint32_t>& numbers, uint32_t id) {
  const bool fresh = numbers[id] == 0;
  if (fresh) {
    reached_.push_back(id);
    numbers[id] = static_cast<uint32_t>(reached_.size());
  }
  add(numbers[id]);
  return fresh;
}

void KernelKeys::add(const Value* v) {
  if (!v) return add(uint64_t{0});
  if (!number(value_number_, v->id)) return;
  if (is_computed(v)) {
    add(v->result + 1);
    return add(*v->producer);
  }
  add(uint64_t{0});
  add(v->type);
  add_buffer(placement_.of_value[v->id]);
}

void KernelKeys::add(const Node& node) {
  const auto first = std::find_if(node.results.begin(), node.results.end(), [](const Value* v) { return v; });
  VESTA_CHECK(first != node.results.end(), "{} is in a kernel but has no result", node.op->name);
  if (!number(node_number_, (*first)->id)) return;
  key_.nodes.push_back(&node);
  add(reinterpret_cast<uintptr_t>(node.op));
  add(node.args().size());
  for (const graph::Arg& a : node.args()) add(a);
  add(node.results.size());
  for (const Value* v : node.results) {
    add(uint64_t{v != nullptr});
    if (v) add(v->type);
  }
}

void KernelKeys::add(const SchedulerNode& u, int place) {
  add(static_cast<uint64_t>(u.kind));
  add(u.piece);
  add(static_cast<uint64_t>(u.split_dim));
  add(u.result_map);
  add(u.operand_map);
  add(u.operand_sizes);
  add_buffer(placement_.of_node[static_cast<size_t>(place)]);
  add_buffer(u.partner < 0 ? -1 : placement_.of_node[static_cast<size_t>(u.partner)]);
  add_buffer(u.into ? placement_.of_value[u.into->id] : -1);
  if (u.kind == SchedulerNodeKind::Check) {
    add(u.check.index);
    add(u.check.size);
    add(uint64_t{u.check.wraps});
    return;
  }
  if (u.kind == SchedulerNodeKind::Copy) return add(u.value);
  add(*u.node);
  for (const Value* v : u.node->results) add_buffer(v ? placement_.of_value[v->id] : -1);
  const int mutation = fusion_.scheduler_node_of(u.value) == place ? fusion_.mutation_in_place(u.value) : -1;
  add_buffer(mutation < 0 ? -1 : graph_.mutations[static_cast<size_t>(mutation)].input);
}

const KernelKey& KernelKeys::of(int group) {
  group_ = group;
  key_.facts.clear();
  key_.sizes.clear();
  key_.buffers.clear();
  key_.nodes.clear();
  value_number_.resize(graph_.value_count());
  node_number_.resize(graph_.value_count());
  for (const uint32_t id : reached_) value_number_[id] = node_number_[id] = 0;
  reached_.clear();
  const FusionGroup& g = fusion_.groups[group];
  add(g.dims.size());
  for (const IterationDim& d : g.dims) {
    add(static_cast<uint64_t>(d.kind));
    add(d.extent);
  }
  add(g.nodes.size());
  for (const int i : g.nodes) add(fusion_.nodes[i], i);
  return key_;
}

}  // namespace vesta::schedule
