// Decides which mutated inputs are written by their kernels directly, so that nothing is copied back.
//
// A run that ends in an exception must leave its inputs unchanged, or must leave them so that eager, which runs the
// program again, gives the same results. A kernel that replaces an input which it reads therefore runs after every ATen
// call. A kernel that overwrites elements without reading them may run earlier.
#include <algorithm>

#include "schedule/fusion.h"

namespace vesta::schedule {

using graph::Value;

namespace {
// Updates of inputs, or copies of them, that one kernel makes.
constexpr size_t kMostEnds = 16;
}  // namespace

int Fusion::mutation_in_place(const Value* v) const {
  for (size_t i = 0; i < in_place.size(); ++i) {
    if (in_place[i] && graph_.mutations[i].value == v) return static_cast<int>(i);
  }
  return -1;
}

// Whether only this mutation, and readers of the value inside the graph, use the input and the value.
bool Fusion::may_replace(size_t mutation) const {
  const graph::Mutation& m = graph_.mutations[mutation];
  const Value* input = graph_.inputs[m.input].value;
  if (m.value->type.dtype != input->type.dtype || !graph::is_non_overlapping_and_dense(input->type)) return false;
  for (size_t i = 0; i < graph_.mutations.size(); ++i) {
    const graph::Mutation& other = graph_.mutations[i];
    const Value* base = base_of(other.value);
    if (i != mutation && (base == m.value || base == input || other.input == m.input)) return false;
  }
  return std::none_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const graph::Output& o) {
    return o.kind == graph::OutputKind::Fresh && base_of(o.value) == m.value;
  });
}

// Whether a node other than `except` reads elements of v. The destination of a copy gives only its shape.
bool Fusion::is_read(const Value* v, const graph::Node* except) const {
  return std::any_of(v->users.begin(), v->users.end(), [&](const graph::Node* user) {
    if (user == except) return false;
    if (is_view(user)) return is_read(user->results[0], except);
    return !user->op->has(graph::kIgnoresFirst) || user->input(1) == v;
  });
}

// The mutation that an update of some elements of its first operand could perform in the input itself. -1: none.
int Fusion::mutation_by(const graph::Node& node) const {
  const Value* v = node.results[0];
  for (size_t i = 0; i < graph_.mutations.size(); ++i) {
    const graph::Mutation& m = graph_.mutations[i];
    const Value* input = graph_.inputs[m.input].value;
    if (m.value != v || node.input(0) != input || !may_replace(i)) continue;
    // The update would read elements or indices from the input after it has written some.
    int uses = 0;
    node.for_each_input([&](Value* operand) { uses += base_of(operand) == input; });
    if (uses > 1) continue;
    const bool shown = std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const graph::Output& o) {
      return o.kind == graph::OutputKind::Fresh && base_of(o.value) == input;
    });
    if (!shown && !is_read(input, &node)) return static_cast<int>(i);
  }
  return -1;
}

// A mutation that the update may perform whatever raises after it.
int Fusion::mutation_of_update(const graph::Node& node) const {
  const int i = mutation_by(node);
  return i >= 0 && !loops::update_of(node)->combine ? i : -1;
}

// Performs additions to an input in the input, if no ATen call needs the sums. The copy of the sums is left out.
bool Fusion::adds_in_place(SchedulerNode& w) {
  if (!options_.fuse || !adds_atomically() || !loops::adds_in_any_order(*w.node) || mutation_by(*w.node) < 0)
    return false;
  for (size_t x = 0; x < groups.size(); ++x)
    if (groups[x].alive && !groups[x].fusable && depends(static_cast<int>(x), w.group)) return false;
  const auto copy = std::find_if(nodes.begin(), nodes.end(), [&](const SchedulerNode& u) { return u.into == w.value; });
  groups[copy->group].alive = false;
  groups[copy->group].nodes.clear();
  copy->group = -1;
  groups[w.group].replaces_input = true;
  return true;
}

bool Fusion::delays_replacement(int writer, int other) const {
  const auto waits = [&](int x) {
    return x != writer && x != other && groups[x].alive && depends(x, other) && !depends(x, writer);
  };
  for (size_t i = 0; i < graph_.mutations.size(); ++i) {
    const int w = scheduler_node_of(graph_.mutations[i].value);
    if (w < 0 || nodes[w].group != writer || mutation_copy[i] >= 0) continue;
    if ((nodes[w].kind != SchedulerNodeKind::Map && nodes[w].kind != SchedulerNodeKind::Scan) || !may_replace(i))
      continue;
    const Value* input = graph_.inputs[graph_.mutations[i].input].value;
    for (const SchedulerNode& reader : nodes) {
      if (reader.inlined || reader.group < 0 || !waits(reader.group)) continue;
      if (std::any_of(reader.reads.begin(), reader.reads.end(), [&](const Read& r) { return r.base == input; }))
        return true;
    }
    for (size_t x = 0; x < groups.size(); ++x)
      if (!groups[x].fusable && waits(static_cast<int>(x))) return true;
  }
  return false;
}

bool Fusion::is_end(const SchedulerNode& u, int last_call) const {
  if (u.kind == SchedulerNodeKind::Copy)
    return !u.into && std::ranges::none_of(u.reads, [](const Read& r) { return r.node >= 0; });
  if (u.position > last_call || u.kind != SchedulerNodeKind::Map || u.prepacked || !u.value->users.empty())
    return false;
  for (size_t i = 0; i < graph_.mutations.size(); ++i)
    if (graph_.mutations[i].value == u.value) return mutation_copy[i] < 0 && may_replace(i);
  return false;
}

// Fuses an update with what it reads if it can replace its input all the same. Otherwise it runs after the last ATen
// call. Small ones over the same dimensions are one kernel, and so are small copies.
void Fusion::merge_ends() {
  std::vector<int> apart;  // groups
  for (const int i : ends_) {
    for (const int p : producers_of(i)) {
      const int g = nodes[i].group;
      if (p != g && groups[p].alive && !delays_replacement(g, p)) try_merge(std::min(p, g), std::max(p, g));
    }
    const int g = nodes[i].group;
    if (groups[g].nodes.size() > 1 || !is_small(groups[g])) continue;
    const auto same = std::ranges::find_if(apart, [&](int x) {
      return nodes[groups[x].nodes[0]].kind == nodes[i].kind && groups[x].dims == groups[g].dims &&
             groups[x].nodes.size() < kMostEnds && legal(x, g);
    });
    if (same == apart.end()) {
      apart.push_back(g);
    } else {
      join(*same, g);
      *same = g;
    }
  }
}

void Fusion::choose_in_place() {
  in_place.assign(graph_.mutations.size(), false);
  for (size_t i = 0; i < graph_.mutations.size(); ++i) {
    const Value* input = graph_.inputs[graph_.mutations[i].input].value;
    const int writer = scheduler_node_of(graph_.mutations[i].value);
    if (writer < 0 || mutation_copy[i] >= 0 || !may_replace(i)) continue;
    SchedulerNode& w = nodes[writer];
    if (w.kind == SchedulerNodeKind::Update) {
      in_place[i] = w.on_input = w.on_input || adds_in_place(w);
      continue;
    }
    if ((w.kind != SchedulerNodeKind::Map && w.kind != SchedulerNodeKind::Scan) || w.prepacked) continue;
    // Readers of the old contents run before, and so does every ATen call.
    std::vector<int> readers;
    bool possible = options_.fuse;
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (nodes[k].inlined || nodes[k].group < 0 || nodes[k].group == w.group) continue;
      for (const Read& r : nodes[k].reads) {
        if (r.base == input) readers.push_back(static_cast<int>(k));
      }
    }
    for (int k : readers) possible = possible && !depends(nodes[k].group, w.group);
    for (size_t x = 0; x < groups.size(); ++x) {
      possible = possible && !(groups[x].alive && !groups[x].fusable && depends(static_cast<int>(x), w.group));
    }
    if (!possible) continue;
    in_place[i] = true;
    groups[w.group].replaces_input = true;
    for (int k : readers) {
      w.reads.push_back(Read::after(k));
      add_dependency(w.group, nodes[k].group);
    }
  }
}

// Turns the mutations that group g performs in place, by reading and replacing, into copies.
bool Fusion::copy_back(int g) {
  bool any = false;
  for (size_t i = 0; i < in_place.size(); ++i) {
    const int writer = in_place[i] ? scheduler_node_of(graph_.mutations[i].value) : -1;
    if (writer < 0 || nodes[writer].group != g || nodes[writer].kind == SchedulerNodeKind::Update) continue;
    in_place[i] = false;
    any = true;
  }
  groups[g].replaces_input = false;
  return any;
}

}  // namespace vesta::schedule
