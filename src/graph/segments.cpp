#include "graph/segments.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/copy.h"
#include "graph/work.h"

namespace vesta::graph {
namespace {

bool is_fresh(const Output& o) { return o.kind == OutputKind::Fresh; }
// A gradient that is an input of the half, or a view of one.
bool is_shown(const Output& o) { return o.kind == OutputKind::Input || o.kind == OutputKind::InputView; }

// Per node, its place.
std::unordered_map<const Node*, int> places_of(const Graph& g) {
  std::unordered_map<const Node*, int> out;
  g.for_each_node([&](const Node* n) { out.emplace(n, static_cast<int>(out.size())); });
  return out;
}

class Divider {
 public:
  Divider(const Graph& half, std::span<const int> segment_of_output)
      : half_(half), segment_of_output_(segment_of_output.begin(), segment_of_output.end()) {
    const std::unordered_map<const Node*, int> places = places_of(half);
    const int n = segment_of_output.empty() ? 1 : 1 + *std::ranges::max_element(segment_of_output);
    ends_.assign(static_cast<size_t>(n), 0);
    for (size_t i = 0; i < half.outputs.size(); ++i) {
      if (!is_fresh(half.outputs[i])) continue;
      const Node* const made = half.outputs[i].value->producer;
      int& end = ends_[static_cast<size_t>(segment_of_output[i])];
      end = std::max(end, made ? places.at(made) + 1 : 0);
    }
    for (size_t s = 1; s < ends_.size(); ++s) ends_[s] = std::max(ends_[s], ends_[s - 1]);
    for (const auto& [node, place] : places)
      segments_[node] = static_cast<int>(std::ranges::upper_bound(ends_, place) - ends_.begin());
  }

  std::vector<Segment> run() {
    std::vector<Segment> out;
    for (size_t s = 0; s < ends_.size(); ++s) add_nodes_of(static_cast<int>(s));
    for (size_t i = 0; i < half_.outputs.size(); ++i)
      if (const Output& o = half_.outputs[i]; is_fresh(o) && segment_of(o.value) != segment_of_output_[i])
        read_later_.insert(o.value);
    for (size_t s = 0; s < ends_.size(); ++s) out.push_back(segment(static_cast<int>(s)));
    return out;
  }

 private:
  // A view costs nothing: each segment makes those that it reads.
  int segment_of(const Value* v) const { return v->producer ? segments_.at(v->producer) : -1; }
  static bool is_view(const Node& n) { return n.op->family() == Family::View || n.op->schema.is_view(); }

  void add_nodes_of(int s) {
    std::unordered_set<const Node*>& nodes = nodes_.emplace_back();
    std::unordered_set<const Value*>& reads = reads_.emplace_back();
    std::vector<const Node*> open;
    half_.for_each_node([&](const Node* n) {
      if (segments_.at(n) == s && nodes.insert(n).second) open.push_back(n);
    });
    for (size_t i = 0; i < half_.outputs.size(); ++i) {
      const Output& o = half_.outputs[i];
      if (!is_shown(o) || segment_of_output_[i] != s) continue;
      reads.insert(half_.inputs[static_cast<size_t>(o.alias)].value);
      if (o.value->producer && nodes.insert(o.value->producer).second) open.push_back(o.value->producer);
    }
    while (!open.empty()) {
      const Node* const n = open.back();
      open.pop_back();
      n->for_each_input([&](const Value* v) {
        if (segment_of(v) == s) return;
        if (v->producer && is_view(*v->producer)) {
          if (nodes.insert(v->producer).second) open.push_back(v->producer);
          return;
        }
        reads.insert(v);
        if (v->producer) read_later_.insert(v);
      });
    }
  }

  Segment segment(int s) {
    Segment out;
    out.graph = std::make_unique<Graph>();
    Graph& to = *out.graph;
    std::unordered_map<Expr, Expr> symbols;
    for (const SymbolSource& from : half_.symbols) {
      const ExprNode& n = *from.symbol.node();
      symbols.emplace(from.symbol, to.context->size_symbol(n.name, n.hint, n.lower));
      to.symbols.push_back(from);
      to.symbols.back().symbol = symbols.at(from.symbol);
    }
    const ExprMap map = [&](Expr e) {
      return e.is_constant() ? e : substitute(e, [&](Expr symbol) { return symbols.at(symbol); });
    };
    for (const Guard& g : half_.guards) to.guards.push_back({map(g.left), g.relation, map(g.right), g.source});
    std::unordered_map<const Value*, Value*> values;
    std::unordered_set<const Value*> wanted = reads_[static_cast<size_t>(s)];
    for (size_t i = 0; i < half_.outputs.size(); ++i)
      if (const Output& o = half_.outputs[i]; is_fresh(o) && segment_of_output_[i] == s && segment_of(o.value) != s)
        wanted.insert(o.value);  // an earlier segment computes it, and this one passes it on
    const auto add_input = [&](const Value* v, const std::string& name, int64_t alignment) {
      values[v] = to.add_input(mapped(v->type, map), InputKind::Argument, name);
      to.inputs.back().alignment = alignment;
      out.reads.push_back(v->id);
    };
    for (const Input& in : half_.inputs)
      if (wanted.contains(in.value)) add_input(in.value, in.name, in.alignment);
    constexpr int64_t kFresh = 16;  // memory of PyTorch's allocators is aligned to more
    half_.for_each_node([&](const Node* n) {
      for (const Value* v : n->results)
        if (v && wanted.contains(v))
          add_input(v, "given" + std::to_string(v->id), v->type.device.type == DeviceType::CUDA ? kFresh : 1);
    });
    half_.for_each_node([&](const Node* n) {
      if (nodes_[static_cast<size_t>(s)].contains(n)) add_copy(to, *n, map, values);
    });
    const auto give = [&](const Value* v, Output output) {
      if (std::ranges::find(out.gives, v->id) != out.gives.end()) return;
      out.gives.push_back(v->id);
      output.value = values.at(v);
      to.outputs.push_back(std::move(output));
    };
    for (size_t i = 0; i < half_.outputs.size(); ++i) {
      const Output& o = half_.outputs[i];
      if (segment_of_output_[i] != s) continue;
      if (is_fresh(o)) give(o.value, {});
      if (!is_shown(o)) continue;
      Output shown = o;
      const uint32_t tangent = half_.inputs[static_cast<size_t>(o.alias)].value->id;
      shown.alias = static_cast<int>(std::ranges::find(out.reads, tangent) - out.reads.begin());
      if (o.kind == OutputKind::InputView) {
        shown.type = mapped(o.type, map);
        shown.storage_offset = map(o.storage_offset);
      }
      give(o.value, std::move(shown));
    }
    half_.for_each_node([&](const Node* n) {
      if (segments_.at(n) != s) return;
      for (const Value* v : n->results)
        if (v && read_later_.contains(v)) give(v, {});
    });
    return out;
  }

  const Graph& half_;
  const std::vector<int> segment_of_output_;
  std::vector<int> ends_;  // per segment, the place after its last node
  std::unordered_map<const Node*, int> segments_;
  std::vector<std::unordered_set<const Node*>> nodes_;
  std::vector<std::unordered_set<const Value*>> reads_;
  std::unordered_set<const Value*> read_later_;  // by later segments than their own
};

}  // namespace

namespace {

// Outputs that the half computes, in its order, each with the place of its node; -1: an input.
std::vector<std::pair<int, size_t>> order_of_outputs(const Graph& half,
                                                     const std::unordered_map<const Node*, int>& places) {
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < half.outputs.size(); ++i) {
    const Value* const v = half.outputs[i].value;
    if (!is_shown(half.outputs[i])) order.emplace_back(v->producer ? places.at(v->producer) : -1, i);
  }
  std::ranges::sort(order);
  return order;
}

int64_t bytes_of(const Output& o) { return is_shown(o) ? 0 : memory_bytes(o.value->type); }

// Gradients that show a tangent come with the last segment: a hook may write to them, and no segment reads the tangent
// after that.
void show_last(const Graph& half, std::vector<int>& segment_of) {
  const int last = *std::ranges::max_element(segment_of);
  for (size_t i = 0; i < half.outputs.size(); ++i)
    if (is_shown(half.outputs[i])) segment_of[i] = last;
}

}  // namespace

std::vector<int> segments_of(const Graph& half, int64_t first, int64_t bytes) {
  constexpr int64_t kMost = 32;  // each costs some microseconds
  int64_t all = 0;
  for (const Output& o : half.outputs) all += bytes_of(o);
  std::vector<int> out(half.outputs.size(), 0);
  int segment = 0;
  int64_t held = 0;
  for (const auto& [place, i] : order_of_outputs(half, places_of(half))) {
    const int64_t limit = std::max(segment == 0 ? std::min(first, bytes) : bytes, all / kMost);
    if (held > 0 && held >= limit) ++segment, held = 0;
    out[i] = segment;
    held += bytes_of(half.outputs[i]);
  }
  show_last(half, out);
  return out;
}

std::vector<int> segments_for_memory(const Graph& half, size_t saved, int64_t count) {
  constexpr int64_t kFew = int64_t{32} << 20;
  const std::unordered_map<const Node*, int> places = places_of(half);
  std::vector<std::pair<int, int64_t>> freed;  // after a place, bytes
  int64_t all = 0;
  for (size_t i = 0; i < saved; ++i) {
    const Value* const v = half.inputs[i].value;
    int last = -1;
    for (const Node* const user : v->users) last = std::max(last, places.at(user));
    freed.emplace_back(last, memory_bytes(v->type));
    all += freed.back().second;
  }
  std::ranges::sort(freed);
  for (const Output& o : half.outputs) all += bytes_of(o);
  std::vector<int> out(half.outputs.size(), 0);
  if (all < kFew) return out;
  int segment = 0;
  int64_t held = 0;
  auto next = freed.begin();
  for (const auto& [place, i] : order_of_outputs(half, places)) {
    if (held >= all / count) ++segment, held = 0;
    out[i] = segment;
    held += bytes_of(half.outputs[i]);
    for (; next != freed.end() && next->first <= place; ++next) held += next->second;
  }
  show_last(half, out);
  return out;
}

std::vector<Segment> divide(const Graph& half, std::span<const int> segment_of_output) {
  return Divider(half, segment_of_output).run();
}

}  // namespace vesta::graph
