#include "trace/gradients/crossings.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <numeric>

#include "interop/torch_types.h"
#include "trace/tensors/sym_node.h"

namespace vesta::trace {

using torch::autograd::Edge;
using torch::autograd::Node;

static std::pair<const Node*, uint32_t> key_of(const Edge& e) { return {e.function.get(), e.input_nr}; }

static graph::TensorType type_at(const Edge& e) {
  const torch::autograd::InputMetadata& at = e.function->input_metadata(e.input_nr);
  graph::TensorType type;
  for (const c10::SymInt& size : at.shape_as_dim_vector()) type.sizes.push_back(to_expr(size));
  type.strides = graph::contiguous_strides(type.sizes);
  type.dtype = to_dtype(at.dtype().toScalarType());
  type.device = to_device(at.device());
  return type;
}

Crossings::Crossings(const GraphHistory& history, const std::vector<JointInput>& inputs,
                     std::span<const HookedResult> hooked, const std::vector<Root>& leaves,
                     const std::vector<Root>& roots, const Ends& ends)
    : history_(history), inputs_(inputs), ends_(ends) {
  for (const Root& leaf : leaves)
    crossings[static_cast<size_t>(enter(leaf.edge, add(leaf.edge, -1)))].output = leaf.number;
  if (hooked.empty()) return;
  std::vector<NodePointer> starts;
  for (const HookedResult& h : hooked) {
    hooked_.emplace(key_of(h.edge), &h);
    (h.of_node ? relays_ : hooked_nodes_).insert(h.edge.function.get());
    starts.push_back(h.edge.function);
  }
  for (const Root& root : roots) starts.push_back(root.edge.function);
  find_levels(starts);
  for (const HookedResult& h : hooked) entered(h.edge);
  for_each_node(starts, ends, [&](const NodePointer& n) {
    if (ends_.contains(n.get()) || relays_.contains(n.get())) return;
    for (const Edge& e : n->next_edges())
      if (e.is_valid() && level(e) > levels_.at(n.get()) && !ends_.contains(e.function.get())) entered(e);
  });
  sort_places();
}

int Crossings::level(const Edge& e) const {
  const auto it = levels_.find(e.function.get());
  return it == levels_.end() ? 0 : it->second;
}

int Crossings::deepest() const {
  int out = 0;
  for (const auto& [node, level] : levels_) out = std::max(out, level);
  return out;
}

Ends Crossings::ends_of(int level) const {
  Ends out = ends_;
  for (const auto& [node, other] : levels_)
    if (other > level) out.insert(node);
  return out;
}

std::vector<Root> Crossings::roots_of(int level) const {
  std::vector<Root> out;
  for (const auto& [key, number] : taken_)
    if (const Edge e(nodes_.at(key.first), key.second); this->level(e) == level)
      out.push_back({.edge = e, .tensor = {}, .number = number, .is_crossing = true});
  std::ranges::sort(out, {}, &Root::number);
  return out;
}

bool Crossings::is_hooked(const Edge& e) const {
  return hooked_.contains(key_of(e)) || relays_.contains(e.function.get());
}

void Crossings::say_parts_done(int level, size_t parts) {
  for (size_t i = 0; i < places.size(); ++i)
    if (place_levels_[i].first == level) places[i].after = parts;
}

void Crossings::find_levels(const std::vector<NodePointer>& starts) {
  std::unordered_map<const Node*, int> waits;
  for_each_node(starts, ends_, [&](const NodePointer& n) {
    nodes_.emplace(n.get(), n);
    if (ends_.contains(n.get())) return;
    for (const Edge& e : n->next_edges())
      if (e.is_valid()) ++waits[e.function.get()];
  });
  std::vector<const Node*> ready;
  for (const auto& [node, pointer] : nodes_)
    if (!waits.contains(node)) ready.push_back(node);
  while (!ready.empty()) {
    const Node* const n = ready.back();
    ready.pop_back();
    const int own = levels_.try_emplace(n, 0).first->second;
    if (ends_.contains(n)) continue;
    for (const Edge& e : n->next_edges()) {
      if (!e.is_valid()) continue;
      const Node* const next = e.function.get();
      const bool calls_hooks = hooked_nodes_.contains(next) || relays_.contains(next);
      int& level = levels_.try_emplace(next, 0).first->second;
      level = std::max(level, own + calls_hooks + relays_.contains(n));
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
}

int Crossings::add(const Edge& e, int place) {
  crossings.push_back({.type = type_at(e), .place = place, .value = history_.value_at(e)});
  return static_cast<int>(crossings.size()) - 1;
}

// The crossing at which a part takes what arrives at an edge.
int Crossings::taken(const Edge& e) {
  const auto it = taken_.find(key_of(e));
  return it != taken_.end() ? it->second : taken_.emplace(key_of(e), add(e, -1)).first->second;
}

// The crossing that a gradient comes to which goes along the edge. Negative: an input.
int Crossings::entered(const Edge& e) {
  const Node* const node = e.function.get();
  if (const auto it = entered_.find(key_of(e)); it != entered_.end()) return it->second;
  if (ends_.contains(node)) {
    const auto in = std::ranges::find(inputs_, node, [](const JointInput& x) { return x.history.function.get(); });
    return -1 - in->input;
  }
  if (relays_.contains(node)) return enter_relay(e);
  const int next = taken(e);
  return enter(e, hooked_.contains(key_of(e)) ? add_to_place(e, add_place(node), next) : next);
}

int Crossings::enter(const Edge& e, int crossing) {
  entries_.emplace_back(e, crossing);
  return entered_[key_of(e)] = crossing;
}

int Crossings::enter_relay(const Edge& e) {
  const Node* const node = e.function.get();
  std::vector<int> next;
  for (const Edge& to : node->next_edges()) next.push_back(entered(to));
  const int place = add_place(node);
  for (uint32_t i = 0; i < next.size(); ++i) {
    const Edge slot(e.function, i);
    enter(slot, add_to_place(slot, place, next[i]));
  }
  return entered_.at(key_of(e));
}

int Crossings::add_place(const Node* node) {
  places.emplace_back();
  place_levels_.emplace_back(levels_.at(node), node->sequence_nr());
  return static_cast<int>(places.size()) - 1;
}

int Crossings::add_to_place(const Edge& e, int place, int next) {
  const int c = add(e, place);
  crossings[static_cast<size_t>(c)].next = next;
  if (const auto it = hooked_.find(key_of(e)); it != hooked_.end())
    crossings[static_cast<size_t>(c)].output = static_cast<int>(it->second->result);
  places[static_cast<size_t>(place)].crossings.push_back(c);
  return c;
}

void Crossings::sort_places() {
  std::vector<size_t> order(places.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const auto &x = place_levels_[a], &y = place_levels_[b];
    return x.first != y.first ? x.first > y.first : x.second < y.second;
  });
  std::vector<HookPlace> sorted;
  std::vector<std::pair<int, uint64_t>> levels;
  for (const size_t i : order) {
    for (const int c : places[i].crossings) crossings[static_cast<size_t>(c)].place = static_cast<int>(sorted.size());
    sorted.push_back(std::move(places[i]));
    levels.push_back(place_levels_[i]);
  }
  places = std::move(sorted);
  place_levels_ = std::move(levels);
}

}  // namespace vesta::trace
