#include "graph/layers.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/hash_mix.h"
#include "graph/copy.h"
#include "graph/node_equality.h"

namespace vesta::graph {
namespace {

// A few layers show what is the same in each: those at the ends of the graph are fused with what is around them.
constexpr int kKept = 6;
// Nodes outside of the layers may read what the first, or the last, so many layers read or compute.
constexpr int kEdge = 2;
// Fewer nodes than this are planned in less time than layers are found.
constexpr int kLeastDropped = 32;

// A run of nodes that consists of `count` layers of `period` nodes.
struct Region {
  int begin = 0, period = 0, count = 0;
  int end() const { return begin + period * count; }
  bool contains(int node) const { return node >= begin && node < end(); }
  int layer_of(int node) const { return (node - begin) / period; }
};

class Finder {
 public:
  Finder(const Graph& graph, const SameSource& same_source) : graph_(graph), same_source_(same_source) {
    nodes_.reserve(graph.node_count());
    place_.resize(graph.value_count());
    for (size_t i = 0; i < graph.inputs.size(); ++i) place_[graph.inputs[i].value->id] = -1 - static_cast<int>(i);
    graph.for_each_node([&](const Node* n) {
      for (const Value* v : n->results)
        if (v) place_[v->id] = static_cast<int>(nodes_.size());
      nodes_.push_back(n);
    });
  }

  std::optional<Layers> run() {
    if (!find_region() || !chain_inputs() || !reads_the_edges() || !chain_outputs() || !chain_mutations()) return {};
    return make();
  }

 private:
  bool is_input(const Value* v) const { return !v->producer; }
  int input_of(const Value* v) const { return -1 - place_[v->id]; }
  int dropped() const { return region_.count - kKept; }

  // ---- where the layers are ----------------------------------------------------------------------------------------

  // What two nodes must share to stand at the same place of two layers, whatever values they read.
  size_t form_of(const Node& n) {
    size_t h = std::hash<const void*>{}(n.op);
    const auto of_value = [&](const Value* v) { return v ? type_hash(v) + 1 : 0; };
    for (const Arg& a : n.args()) {
      if (const auto* v = std::get_if<Value*>(&a)) {
        h = mix_hash(h, of_value(*v));
      } else if (const auto* list = std::get_if<ValueList>(&a)) {
        h = mix_hash(h, list->size());
        for (const Value* v : *list) h = mix_hash(h, of_value(v));
      } else {
        h = mix_hash(h, hash_of(a));
      }
    }
    return h;
  }

  size_t type_hash(const Value* v) {
    size_t& known = type_hashes_[v->id];
    if (known == 0) known = hash_of(v->type) | 1;
    return known;
  }

  bool find_region() {
    const int n = static_cast<int>(nodes_.size());
    if (n < kLeastDropped) return false;
    type_hashes_.resize(graph_.value_count());
    std::vector<size_t> forms;
    forms.reserve(nodes_.size());
    for (const Node* node : nodes_) forms.push_back(form_of(*node));
    std::unordered_map<size_t, std::vector<int>> places;
    for (int i = 0; i < n; ++i) places[forms[i]].push_back(i);
    // Most nodes stand one layer before the next of the same form: where layers of several kinds take turns, before the
    // one that comes so many later.
    constexpr size_t kMostKinds = 8, kTried = 4;
    for (size_t kinds = 1; kinds <= kMostKinds && region_.count == 0; ++kinds) {
      std::unordered_map<int, int> distances;
      for (const auto& [form, at] : places)
        for (size_t k = kinds; k < at.size(); ++k) ++distances[at[k] - at[k - kinds]];
      std::vector<std::pair<int, int>> periods;  // how often, distance
      for (const auto& [distance, count] : distances) periods.emplace_back(count, distance);
      std::ranges::sort(periods, [](auto a, auto b) { return a.first != b.first ? a.first > b.first : a < b; });
      if (periods.size() > kTried) periods.resize(kTried);
      for (const auto& [count, period] : periods) {
        const Region found = longest_run(period, forms);
        const bool saves = found.count >= kKept + kEdge && found.period * (found.count - kKept) >= kLeastDropped;
        if (saves && found.period * found.count > region_.period * region_.count) region_ = found;
      }
    }
    return region_.count > 0;
  }

  // The longest run of nodes of which each corresponds to the one a period later.
  Region longest_run(int period, const std::vector<size_t>& forms) const {
    const int n = static_cast<int>(nodes_.size());
    Region best;
    int begin = 0;
    const auto take = [&](int end) {
      const Region found{begin, period, (end - begin) / period + 1};
      if (end > begin && found.count > best.count) best = found;
    };
    for (int i = 0; i + period < n; ++i) {
      int from = begin;  // the layers begin after what all of them read
      if (forms[i] == forms[i + period] && corresponds(i, period, from)) {
        begin = from;
        continue;
      }
      take(i);
      begin = i + 1;
    }
    take(n - period);
    return best;
  }

  // Whether node i and the one a period later compute the same of values that correspond. `from` becomes the node after
  // the last that both read.
  bool corresponds(int i, int period, int& from) const {
    const Node &a = *nodes_[i], &b = *nodes_[i + period];
    if (a.op != b.op || a.prepacked != b.prepacked || a.raises != b.raises || !same_results(a, b)) return false;
    const auto values_correspond = [&](const Value* v, const Value* w) {
      if (!v || !w) return v == w;
      if (is_input(v) != is_input(w)) return false;
      if (is_input(v)) return inputs_correspond(graph_.inputs[input_of(v)], graph_.inputs[input_of(w)]);
      const int at = place_[v->id];
      if (v == w) {
        from = std::max(from, std::min(i, at + 1));
        return true;
      }
      return place_[w->id] == at + period && v->result == w->result && at >= i - kEdge * period;
    };
    for (size_t k = 0; k < a.args().size(); ++k) {
      const Arg &x = a.args()[k], &y = b.args()[k];
      if (x.index() != y.index()) return false;
      if (const auto* v = std::get_if<Value*>(&x)) {
        if (!values_correspond(*v, std::get<Value*>(y))) return false;
      } else if (const auto* list = std::get_if<ValueList>(&x)) {
        if (!std::ranges::equal(*list, std::get<ValueList>(y), values_correspond)) return false;
      } else if (!same(x, y)) {
        return false;
      }
    }
    return same_source_(a.source, b.source);
  }

  static bool inputs_correspond(const Input& a, const Input& b) {
    return &a == &b || (a.kind == b.kind && a.alignment == b.alignment && a.value->type == b.value->type);
  }

  // ---- what layers have of their own -------------------------------------------------------------------------------

  // Inputs of layers, in the order of the layers.
  bool chain_inputs() {
    const size_t n = graph_.inputs.size();
    std::vector<int> next(n, -1), before(n, -1);
    bool fits = true;
    const auto pair = [&](const Value* v, const Value* w) {
      if (!v || !is_input(v)) return;
      const int a = input_of(v), b = input_of(w);
      fits = fits && (next[a] < 0 || next[a] == b) && (before[b] < 0 || before[b] == a);
      next[a] = b;
      before[b] = a;
    };
    for (int i = region_.begin; i + region_.period < region_.end(); ++i) {
      const auto a = nodes_[i]->args(), b = nodes_[i + region_.period]->args();
      for (size_t k = 0; k < a.size(); ++k) {
        if (const auto* v = std::get_if<Value*>(&a[k])) pair(*v, std::get<Value*>(b[k]));
        if (const auto* list = std::get_if<ValueList>(&a[k]))
          for (size_t j = 0; j < list->size(); ++j) pair((*list)[j], std::get<ValueList>(b[k])[j]);
      }
    }
    if (!fits) return false;
    std::optional<Chains> chains = chains_of(next, before);
    if (!chains || chains->members.empty()) return false;
    inputs_.chains = std::move(chains->members);
    input_place_ = std::move(chains->places);
    return true;
  }

  // Whether nodes before and after the layers read them at the edge alone.
  bool reads_the_edges() const {
    const auto reads = [&](const Node* n, bool after) {
      bool at_edge = true;
      n->for_each_input([&](const Value* v) {
        if (is_input(v)) {
          const auto [chain, at] = input_place_[input_of(v)];
          if (chain < 0) return;
          at_edge = at_edge && (after ? at >= static_cast<int>(inputs_.chains[chain].size()) - kEdge : at < kEdge);
        } else if (after && place_[v->id] >= region_.begin) {
          at_edge = at_edge && place_[v->id] >= region_.end() - kEdge * region_.period;
        }
      });
      return at_edge;
    };
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i)
      if (!region_.contains(i) && !reads(nodes_[i], i >= region_.end())) return false;
    return true;
  }

  // What outputs of the same place of different layers share: a kind, what they show, and how many such outputs of the
  // layer come before.
  using Anchor = std::array<int, 5>;
  struct OfLayer {
    Anchor anchor{};
    int layer = -1;
  };

  // Collects what has an anchor, and makes chains of what each layer has. `alike(a, b)`: b may follow a in a chain.
  template <class Alike>
  bool chain(const std::vector<OfLayer>& all, Kept& kept, Alike&& alike) {
    std::map<Anchor, std::map<int, int>> found;  // by anchor, by layer: index
    std::map<std::pair<Anchor, int>, int> ordinals;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].layer < 0) continue;
      Anchor anchor = all[i].anchor;
      anchor.back() = ordinals[{anchor, all[i].layer}]++;
      found[anchor].emplace(all[i].layer, static_cast<int>(i));
    }
    for (const auto& [anchor, layers] : found) {
      const int first = layers.begin()->first, last = layers.rbegin()->first;
      if (last < kEdge || first >= region_.count - kEdge) continue;  // of the ends, kept as they are
      if (first > kEdge || last < region_.count - 1 - kEdge || last - first + 1 != static_cast<int>(layers.size()))
        return false;
      std::vector<int>& members = kept.chains.emplace_back();
      for (const auto& [layer, index] : layers) {
        if (!members.empty() && !alike(members.back(), index)) return false;
        members.push_back(index);
      }
    }
    return true;
  }

  bool chain_outputs() {
    std::vector<OfLayer> all(graph_.outputs.size());
    const auto place = [&](size_t i, const Output& shown) {
      const Output& o = graph_.outputs[i];
      const int kind = static_cast<int>(o.kind);
      if (shown.kind == OutputKind::Fresh) {
        if (const Value* v = shown.value; is_input(v)) {
          const auto [chain, at] = input_place_[input_of(v)];
          all[i] = {{kind, 0, chain, 0, 0}, at};
        } else if (const int at = place_[v->id]; region_.contains(at)) {
          all[i] = {{kind, 1, (at - region_.begin) % region_.period, static_cast<int>(v->result), 0},
                    region_.layer_of(at)};
        }
      } else if (shown.kind == OutputKind::Input || shown.kind == OutputKind::InputView) {
        const auto [chain, at] = input_place_[shown.alias];
        all[i] = {{kind, 2, chain, 0, 0}, at};
      }
    };
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& o = graph_.outputs[i];
      place(i, o.kind == OutputKind::OutputView ? graph_.outputs[o.alias] : o);
    }
    return chain(all, outputs_, [&](int a, int b) {
      const Output &x = graph_.outputs[a], &y = graph_.outputs[b];
      return x.kind == y.kind && x.type == y.type && x.storage_offset == y.storage_offset &&
             x.absolute_offset == y.absolute_offset && x.integer == y.integer && x.conj_neg == y.conj_neg &&
             x.hidden == y.hidden && (!x.value || !y.value ? x.value == y.value : x.value->type == y.value->type);
    });
  }

  bool chain_mutations() {
    std::vector<OfLayer> all(graph_.mutations.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const auto [chain, at] = input_place_[graph_.mutations[i].input];
      all[i] = {{0, 0, chain, 0, 0}, at};
    }
    return chain(all, mutations_, [&](int a, int b) {
      const Value *x = graph_.mutations[a].value, *y = graph_.mutations[b].value;
      return !is_input(x) && !is_input(y) && place_[y->id] == place_[x->id] + region_.period && x->result == y->result;
    });
  }

  // ---- the graph with fewer layers ---------------------------------------------------------------------------------

  // Fills `kept.whole`: all but the last of each chain. Returns the new index of each; -1: not kept.
  std::vector<int> keep(Kept& kept, size_t count) const {
    std::vector<int> renumbered(count, 0);
    for (const auto& chain : kept.chains)
      for (size_t k = chain.size() - static_cast<size_t>(dropped()); k < chain.size(); ++k) renumbered[chain[k]] = -1;
    for (size_t i = 0; i < count; ++i) {
      if (renumbered[i] < 0) continue;
      renumbered[i] = static_cast<int>(kept.whole.size());
      kept.whole.push_back(static_cast<int>(i));
    }
    return renumbered;
  }

  std::optional<Layers> make() {
    for (const Kept* kept : {&inputs_, &outputs_, &mutations_})
      for (const auto& chain : kept->chains)
        if (static_cast<int>(chain.size()) <= dropped()) return {};
    Layers out;
    out.count = region_.count;
    out.kept = kKept;
    out.few = std::make_unique<Graph>();
    Graph& few = *out.few;
    few.context = graph_.context;
    std::unordered_map<const Value*, Value*> values;
    const std::vector<int> input = keep(inputs_, graph_.inputs.size());
    for (const int i : inputs_.whole) {
      const Input& in = graph_.inputs[i];
      values[in.value] = few.add_input(in.value->type, in.kind, in.name);
      few.inputs.back().alignment = in.alignment;
    }
    const auto drop = static_cast<size_t>(dropped());
    for (const auto& chain : inputs_.chains)
      for (size_t k = chain.size() - kEdge; k < chain.size(); ++k)
        values[graph_.inputs[chain[k]].value] = values.at(graph_.inputs[chain[k - drop]].value);
    const ExprMap same_expr = [](Expr e) { return e; };
    const int skip = region_.begin + kKept * region_.period, resume = region_.end();
    for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
      const Node& n = *nodes_[i];
      if (i < skip || i >= resume) {
        Node* const made = add_copy(few, n, same_expr, values);
        made->prepacked = n.prepacked;
        made->raises = n.raises;
      } else if (i >= resume - kEdge * region_.period) {  // for what comes after the layers
        const Node& same = *nodes_[i - dropped() * region_.period];
        for (size_t r = 0; r < n.results.size(); ++r)
          if (n.results[r]) values[n.results[r]] = values.at(same.results[r]);
      }
    }
    for (SymbolSource s : graph_.symbols) {
      if (s.input >= 0 && (s.input = input[s.input]) < 0) return {};
      few.symbols.push_back(s);
    }
    few.guards = graph_.guards;
    const std::vector<int> output = keep(outputs_, graph_.outputs.size());
    for (const int i : outputs_.whole) {
      Output o = graph_.outputs[i];
      if (o.value) {
        const auto it = values.find(o.value);
        if (it == values.end()) return {};
        o.value = it->second;
      }
      if (o.alias >= 0) o.alias = (o.kind == OutputKind::OutputView ? output : input)[o.alias];
      if (o.alias < 0 && graph_.outputs[i].alias >= 0) return {};
      few.outputs.push_back(std::move(o));
    }
    keep(mutations_, graph_.mutations.size());
    for (const int i : mutations_.whole) {
      const Mutation& m = graph_.mutations[i];
      const auto it = values.find(m.value);
      if (it == values.end() || input[m.input] < 0) return {};
      few.mutations.push_back({input[m.input], it->second});
    }
    few.renumber();
    out.inputs = std::move(inputs_);
    out.outputs = std::move(outputs_);
    out.mutations = std::move(mutations_);
    return out;
  }

  const Graph& graph_;
  const SameSource& same_source_;
  std::vector<const Node*> nodes_;
  std::vector<int> place_;  // by value id: the index of its node; -1 - i: input i
  std::vector<size_t> type_hashes_;
  Region region_;
  Kept inputs_, outputs_, mutations_;
  std::vector<ChainPlace> input_place_;  // by input
};

}  // namespace

std::optional<Chains> chains_of(const std::vector<int>& next, const std::vector<int>& before) {
  Chains out;
  out.places.resize(next.size());
  size_t left = 0;  // pairs that are in no chain yet
  for (size_t i = 0; i < next.size(); ++i) left += next[i] >= 0 && next[i] != static_cast<int>(i);
  for (size_t i = 0; i < next.size(); ++i) {
    if (before[i] >= 0 || next[i] < 0) continue;
    const int chain = static_cast<int>(out.members.size());
    std::vector<int>& members = out.members.emplace_back();
    for (int at = static_cast<int>(i); at >= 0; at = next[at]) {
      out.places[at] = {chain, static_cast<int>(members.size())};
      members.push_back(at);
    }
    left -= members.size() - 1;
  }
  if (left != 0) return {};
  return out;
}

std::vector<int> Kept::templates(size_t count, int dropped) const {
  std::vector<int> out(count, -1);
  for (size_t i = 0; i < whole.size(); ++i) out[whole[i]] = static_cast<int>(i);
  for (const auto& chain : chains) {
    const size_t kept = chain.size() - static_cast<size_t>(dropped);
    for (size_t k = kept; k < chain.size(); ++k) out[chain[k]] = out[chain[kept - 1]];
  }
  return out;
}

void take_facts(Graph& whole, const Layers& layers) {
  const Graph& few = *layers.few;
  whole.guards = few.guards;
  const std::vector<int> inputs = layers.inputs.templates(whole.inputs.size(), layers.dropped());
  for (size_t i = 0; i < inputs.size(); ++i) whole.inputs[i].value->type = few.inputs[inputs[i]].value->type;
  const std::vector<int> outputs = layers.outputs.templates(whole.outputs.size(), layers.dropped());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& from = few.outputs[outputs[i]];
    Output& to = whole.outputs[i];
    to.type = from.type;
    to.storage_offset = from.storage_offset;
    to.integer = from.integer;
  }
}

std::optional<Layers> find_layers(const Graph& graph, const SameSource& same_source) {
  return Finder(graph, same_source).run();
}

}  // namespace vesta::graph
