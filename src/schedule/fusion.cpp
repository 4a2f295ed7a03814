#include "schedule/fusion.h"

#include <algorithm>

#include "base/check.h"
#include "base/hash_mix.h"
#include "graph/rules/broadcast.h"

namespace vesta::schedule {

using graph::Family;
using graph::Node;
using graph::product;
using graph::Value;
using loops::RangeKind;

namespace {

bool has(const std::vector<uint64_t>& bits, int i) {
  size_t w = static_cast<size_t>(i) / 64;
  return w < bits.size() && (bits[w] >> (i % 64) & 1);
}

void set(std::vector<uint64_t>& bits, int i) {
  size_t w = static_cast<size_t>(i) / 64;
  if (bits.size() <= w) bits.resize(w + 1);
  bits[w] |= uint64_t{1} << (i % 64);
}

void clear(std::vector<uint64_t>& bits, int i) {
  size_t w = static_cast<size_t>(i) / 64;
  if (w < bits.size()) bits[w] &= ~(uint64_t{1} << (i % 64));
}

void merge_into(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t w = 0; w < from.size(); ++w) to[w] |= from[w];
}

// Whether a set bit, from the word of bit `from` on, has the property.
template <class F>
bool any_bit(const std::vector<uint64_t>& bits, int from, F&& property) {
  for (size_t w = static_cast<size_t>(from) / 64; w < bits.size(); ++w) {
    for (uint64_t b = bits[w]; b; b &= b - 1)
      if (property(static_cast<int>(w * 64 + static_cast<size_t>(__builtin_ctzll(b))))) return true;
  }
  return false;
}

Expr total(const std::vector<IterationDim>& dims, RangeKind kind) {
  Expr p = 1;
  for (const IterationDim& r : dims) {
    if (r.kind == kind) p = p * r.extent;
  }
  return p;
}

void add_read(Read r, std::vector<Read>& out) {
  for (const Read& known : out) {
    if (known.node == r.node && known.base == r.base && known.opaque == r.opaque && known.index == r.index) return;
  }
  out.push_back(std::move(r));
}

bool same_index(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), provably_equal);
}

}  // namespace

void Fusion::run() {
  collect_nodes();
  mark_needed();
  decide_inlining();
  form_groups();
  if (options_.fuse) merge_siblings();
  merge_ends();
  choose_in_place();
}

// ---- Reads ----------------------------------------------------------------------------------------------------------

// Appends what the element of v at `index` reads. nullptr: the indices are not followed.
void Fusion::walk(const Value* v, const std::vector<Expr>* index, std::vector<Read>& out) {
  std::vector<Expr> mapped;
  while (is_view(v->producer)) {
    const Node* node = v->producer;
    if (index) {
      mapped = node->op->row->view(node->named(), v->type, *index);
      index = &mapped;
    }
    v = node->input(0);
  }
  int p = scheduler_node_of(v);
  if (p >= 0 && nodes[p].inlined) {
    const Node* node = nodes[p].node;
    for (const Read& r : nodes[p].reads) {
      if (!r.base) add_read(r, out);
    }
    return walk_operands(*node, index, out);
  }
  Read r;
  r.node = p;
  r.base = v;
  // Elements that an Update does not write are known only in its buffer.
  r.opaque = index == nullptr || (p >= 0 && nodes[p].kind == SchedulerNodeKind::Update);
  if (index) {
    r.index = *index;
    if (p >= 0 && (nodes[p].kind == SchedulerNodeKind::Reduce || nodes[p].kind == SchedulerNodeKind::Final)) {
      const loops::ReductionShape& s = nodes[p].shape;
      r.index.clear();
      for (size_t d = 0, at = 0; d < s.reduced.size(); ++d) {
        if (s.reduced[d]) {
          at += s.keep;
        } else {
          r.index.push_back((*index)[at++]);
        }
      }
    }
  }
  add_read(std::move(r), out);
}

// Appends what the operands read for the result's element at `index`.
void Fusion::walk_operands(const Node& node, const std::vector<Expr>* index, std::vector<Read>& out) {
  const bool follow = index && node.op->family() == Family::Pointwise;
  node.for_each_input([&](Value* v) {
    if (!follow) return walk(v, nullptr, out);
    const std::vector<Expr> at = loops::broadcast_index(*index, v->type.sizes);
    walk(v, &at, out);
  });
}

// Appends the read of a one-hot gather's index tensor.
void Fusion::read_wanted(const SchedulerNode& u, std::vector<Expr> operand_index, std::vector<Read>& out) {
  if (!loops::is_one_hot_gather(*u.node)) return;
  for (size_t d = 0; d < operand_index.size(); ++d) {
    if (u.shape.reduced[d]) operand_index[d] = 0;
  }
  walk(u.node->input(2), &operand_index, out);
}

void Fusion::collect_reads(int i) {
  SchedulerNode& u = nodes[i];
  std::vector<Read> reads;
  for (Read& r : u.reads) {
    if (!r.base) reads.push_back(std::move(r));  // only orders nodes: effects, checks of indices
  }
  switch (u.kind) {
    case SchedulerNodeKind::Extern:
      u.node->for_each_input([&](Value* v) {
        const Value* base = base_of(v);
        reads.push_back({.node = scheduler_node_of(base), .base = base, .opaque = true});
      });
      break;
    case SchedulerNodeKind::Copy:
      if (!u.is_call()) {
        walk(u.value, &u.result_map, reads);
      } else {
        const Value* base = base_of(u.value);
        reads.push_back({.node = scheduler_node_of(base), .base = base, .opaque = true});
      }
      break;
    case SchedulerNodeKind::Check:
      if (u.partner < 0) {
        const std::vector<Expr> at = u.operand_index();
        walk(u.check.index, &at, reads);
        break;
      }
      [[fallthrough]];
    case SchedulerNodeKind::Assert:
    case SchedulerNodeKind::Final: reads.push_back(Read::after(u.partner)); break;
    case SchedulerNodeKind::Scan: walk(u.node->input(0), &u.operand_map, reads); break;
    case SchedulerNodeKind::Update:
      for (const auto& [v, at] : loops::update_reads(*u.node, u.operand_map, u.piece)) walk(v, &at, reads);
      break;
    case SchedulerNodeKind::Reduce:
      if (const auto product = loops::product_operands(*u.node)) {
        walk(product->rows, nullptr, reads);
        walk(product->columns, nullptr, reads);
        for (const Value* v : loops::applied_to_sums(*product)) {
          const std::vector<Expr> at = loops::broadcast_index(u.result_map, v->type.sizes);
          walk(v, &at, reads);
        }
        break;
      }
      walk(u.node->input(0), &u.operand_map, reads);
      read_wanted(u, u.operand_map, reads);
      break;
    case SchedulerNodeKind::Partial: {
      const std::vector<Expr> at = u.operand_index();
      walk(u.node->input(0), &at, reads);
      read_wanted(u, at, reads);
      break;
    }
    case SchedulerNodeKind::Map: walk_operands(*u.node, &u.result_map, reads); break;
  }
  u.reads = std::move(reads);
}

// ---- Groups ---------------------------------------------------------------------------------------------------------

size_t Fusion::SizesHash::operator()(const std::vector<Expr>& sizes) const {
  size_t h = sizes.size();
  for (const Expr e : sizes) h = mix_hash(h, e.hash());
  return h;
}

// The index of element u_k of a tensor of these sizes. Most tensors of a graph have one of a few sizes.
const std::vector<Expr>& Fusion::index_of(size_t k, const std::vector<Expr>& sizes) {
  if (indices_.size() <= k) indices_.resize(k + 1);
  const auto [it, fresh] = indices_[k].try_emplace(sizes);
  if (fresh) it->second = loops::delinearize(dim_symbol(k, product(sizes)), sizes);
  return it->second;
}

void Fusion::place_alone(int i) {
  SchedulerNode& u = nodes[i];
  FusionGroup& g = groups[u.group];
  g.dims.clear();
  g.reduces = u.kind == SchedulerNodeKind::Reduce || u.kind == SchedulerNodeKind::Partial ||
              u.kind == SchedulerNodeKind::Final || u.kind == SchedulerNodeKind::Check ||
              u.kind == SchedulerNodeKind::Scan || (u.kind == SchedulerNodeKind::Update && !u.in_any_order);
  if (!g.reduces) {
    g.dims.push_back({RangeKind::Parallel, product(u.sizes())});
    u.map() = index_of(0, u.sizes());
    return;
  }
  // Adjacent dimensions of one kind form an iteration dimension. Dimensions of size 1 belong to none.
  u.operand_map.assign(u.operand_sizes.size(), Expr(0));
  u.result_map.clear();
  for (size_t d = 0; d < u.operand_sizes.size();) {
    if (u.operand_sizes[d].is_constant(1)) {
      ++d;
      continue;
    }
    const bool reduced = u.operand_reduced[d];
    std::vector<Expr> sizes;
    std::vector<size_t> dims;
    for (; d < u.operand_sizes.size() && (u.operand_reduced[d] == reduced || u.operand_sizes[d].is_constant(1)); ++d) {
      if (u.operand_sizes[d].is_constant(1)) continue;
      sizes.push_back(u.operand_sizes[d]);
      dims.push_back(d);
    }
    IterationDim run{reduced ? RangeKind::Inner : RangeKind::Parallel, product(sizes)};
    const std::vector<Expr>& index = index_of(g.dims.size(), sizes);
    for (size_t k = 0; k < dims.size(); ++k) u.operand_map[dims[k]] = index[k];
    g.dims.push_back(run);
  }
  // A reduction always has an inner loop, even if it has one element.
  if (u.kind != SchedulerNodeKind::Update && total(g.dims, RangeKind::Inner).is_constant(1))
    g.dims.push_back({RangeKind::Inner, 1});
  for (size_t d = 0; d < u.operand_sizes.size(); ++d) {
    if (!u.operand_reduced[d] || u.kind == SchedulerNodeKind::Scan) u.result_map.push_back(u.operand_map[d]);
  }
}

void Fusion::open_group(int i) {
  SchedulerNode& u = nodes[i];
  u.group = static_cast<int>(groups.size());
  groups.emplace_back();
  FusionGroup& g = groups.back();
  g.nodes = {i};
  g.first = g.last = u.position;
  g.oldest = u.group;
  g.cost = u.cost;
  g.fusable = !u.is_call() && u.kind != SchedulerNodeKind::Assert;
  g.prepacked = u.prepacked;
  g.windowed = u.windowed;
  g.products = u.kind == SchedulerNodeKind::Reduce && loops::product_operands(*u.node) ? 1 : 0;
  if (g.fusable) place_alone(i);
  collect_reads(i);
  for (const Read& r : u.reads) {
    if (r.node < 0) continue;
    int p = nodes[r.node].group;
    if (p == u.group || p < 0) continue;
    merge_into(groups[u.group].deps, groups[p].deps);
    set(groups[u.group].deps, p);
  }
}

void Fusion::add_dependency(int g, int on) {
  std::vector<uint64_t> before = groups[on].deps;
  set(before, on);
  merge_into(groups[g].deps, before);
  for (FusionGroup& x : groups) {
    if (x.alive && has(x.deps, g)) merge_into(x.deps, before);
  }
}

bool Fusion::depends(int later, int earlier) const { return has(groups[later].deps, earlier); }

// The groups that compute what the node reads. Those with reductions come first, because they fix the iteration
// dimensions. Then the nearest.
std::vector<int> Fusion::producers_of(int i) const {
  std::vector<int> producers;
  for (const Read& r : nodes[i].reads) {
    if (r.node < 0 || r.opaque || nodes[r.node].kind == SchedulerNodeKind::Extern) continue;
    int p = nodes[r.node].group;
    if (std::find(producers.begin(), producers.end(), p) == producers.end()) producers.push_back(p);
  }
  std::sort(producers.begin(), producers.end(), [&](int a, int b) {
    return std::pair(groups[a].reduces, groups[a].last) > std::pair(groups[b].reduces, groups[b].last);
  });
  return producers;
}

void Fusion::form_groups() {
  groups.reserve(nodes.size());
  int last_call = -1;
  for (const SchedulerNode& u : nodes)
    if (u.is_call()) last_call = std::max(last_call, u.position);
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    if (nodes[i].inlined) continue;
    open_group(i);
    if (!groups[nodes[i].group].fusable || !options_.fuse) continue;
    if (is_end(nodes[i], last_call)) {
      ends_.push_back(i);
      continue;
    }
    for (int p : producers_of(i)) {
      if (groups[p].alive && p != nodes[i].group) try_merge(p, nodes[i].group);
    }
  }
}

// Whether a and b may become one group: no path between them runs through a third group. Such a path begins with a
// group that reads a node of the first one. A reader is opened after what it reads, and the later of two groups lives
// on when they merge, so the number of that group is above the first one's `oldest`.
bool Fusion::legal(int a, int b) const {
  const auto between = [&](int from, int to) {
    return any_bit(groups[to].deps, groups[from].oldest,
                   [&](int x) { return x != from && x != to && has(groups[x].deps, from); });
  };
  return !between(a, b) && !between(b, a);
}

// Whether a group over the dimensions `from` can run over `to`. images: what each symbol of `from` becomes.
bool Fusion::fits(const std::vector<IterationDim>& from, const std::vector<IterationDim>& to,
                  std::vector<Expr>& images) {
  images.clear();
  if (from.size() != 1 || from[0].kind != RangeKind::Parallel) return false;
  auto linear = [&](bool all) {
    Expr e = 0;
    for (size_t k = 0; k < to.size(); ++k) {
      if (all || to[k].kind == RangeKind::Parallel) e = e * to[k].extent + dim_symbol(k, to[k].extent);
    }
    return e;
  };
  Expr parallel = total(to, RangeKind::Parallel), inner = total(to, RangeKind::Inner);
  if (provably_equal(from[0].extent, parallel * inner)) {
    images = {linear(true)};
    return true;
  }
  if (provably_equal(from[0].extent, parallel)) {
    images = {linear(false)};
    return true;
  }
  return false;
}

void Fusion::remap(int g, const std::vector<IterationDim>& dims, const std::vector<Expr>& images) {
  FusionGroup& group = groups[g];
  if (group.dims == dims) return;
  Images* cache = nullptr;
  for (Images& i : images_) {
    if (i.from == group.dims && i.to == dims) cache = &i;
  }
  if (!cache) {
    images_.push_back({group.dims, dims, {}});
    cache = &images_.back();
  }
  std::vector<Expr> old;
  for (size_t k = 0; k < group.dims.size(); ++k) old.push_back(dim_symbol(k, group.dims[k].extent));
  auto move = [&](Expr& e) {
    if (e.is_constant()) return;
    auto [it, fresh] = cache->known.emplace(e, Expr(0));
    if (fresh) {
      it->second = substitute(e, [&](Expr s) {
        for (size_t k = 0; k < old.size(); ++k) {
          if (s == old[k]) return images[k];
        }
        return s;
      });
    }
    e = it->second;
  };
  for (int i : group.nodes) {
    for (Expr& e : nodes[i].result_map) move(e);
    for (Expr& e : nodes[i].operand_map) move(e);
    for (Read& r : nodes[i].reads) {
      for (Expr& e : r.index) move(e);
    }
  }
  group.dims = dims;
}

// Whether every read between the two groups is at the index at which the producer computes.
bool Fusion::edges_match(int a, int b) const {
  auto check = [&](int from, int to) {
    for (int i : groups[to].nodes) {
      for (const Read& r : nodes[i].reads) {
        if (r.node < 0 || nodes[r.node].group != from) continue;
        if (r.opaque || !same_index(r.index, nodes[r.node].result_map)) return false;
      }
    }
    return true;
  };
  return check(a, b) && check(b, a);
}

// A consumer that reads its producer through a permutation of dimensions takes the producer's order.
bool Fusion::solve_permutation(int c, int producer_group) {
  FusionGroup& g = groups[c];
  if (g.nodes.size() != 1 || g.reduces) return false;
  SchedulerNode& u = nodes[g.nodes[0]];
  const std::vector<Expr>& sizes = u.sizes();
  if (u.kind == SchedulerNodeKind::Map && u.node->op->family() != Family::Pointwise) return false;
  std::vector<Expr> saved = u.map();
  std::vector<Read> saved_reads = u.reads;
  constexpr size_t kProbe = 64;
  for (size_t d = 0; d < sizes.size(); ++d) {
    u.map()[d] = sizes[d].is_constant(1) ? Expr(0) : dim_symbol(kProbe + d, sizes[d]);
  }
  std::vector<Expr> probes = u.map();
  collect_reads(g.nodes[0]);
  std::vector<Expr> solved(sizes.size());
  bool ok = false;
  for (const Read& r : u.reads) {
    if (r.node < 0 || nodes[r.node].group != producer_group || r.opaque || ok) continue;
    const std::vector<Expr>& result_map = nodes[r.node].result_map;
    std::vector<char> set(sizes.size(), 0);
    bool bijection = r.index.size() == result_map.size();
    for (size_t k = 0; bijection && k < result_map.size(); ++k) {
      if (r.index[k].is_constant(0)) continue;
      auto at = std::find(probes.begin(), probes.end(), r.index[k]);
      if (at == probes.end() || set[static_cast<size_t>(at - probes.begin())]) {
        bijection = false;
        break;
      }
      solved[static_cast<size_t>(at - probes.begin())] = result_map[k];
      set[static_cast<size_t>(at - probes.begin())] = 1;
    }
    for (size_t d = 0; bijection && d < sizes.size(); ++d) bijection = set[d] || sizes[d].is_constant(1);
    ok = bijection;
  }
  if (!ok) {
    u.map() = std::move(saved);
    u.reads = std::move(saved_reads);
    return false;
  }
  u.map() = std::move(solved);
  collect_reads(g.nodes[0]);
  return true;
}

bool Fusion::try_merge(int a, int b) {
  FusionGroup& ga = groups[a];
  FusionGroup& gb = groups[b];
  if (!ga.fusable || !gb.fusable || ga.prepacked != gb.prepacked) return false;
  if (gb.first - ga.last > limits_.distance || ga.nodes.size() + gb.nodes.size() > limits_.nodes) return false;
  if (ga.cost + gb.cost > limits_.group_cost || ga.products + gb.products > limits_.products) return false;
  if ((ga.windowed && gb.reduces) || (gb.windowed && ga.reduces)) return false;
  if (!legal(a, b)) return false;
  const bool alike = ga.dims == gb.dims;
  bool ok = alike && edges_match(a, b);
  if (alike && !ok && gb.nodes.size() > 1) return false;  // its nodes have one order
  // Otherwise one side takes the other's dimensions or order. They are restored if the reads then disagree.
  int moved = b;
  std::vector<Expr> images;
  if (!alike) {
    if (gb.reduces && !ga.reduces && fits(ga.dims, gb.dims, images)) {
      moved = a;
    } else if (!ga.reduces || gb.reduces || !fits(gb.dims, ga.dims, images)) {
      return false;
    }
  }
  struct Saved {
    std::vector<Expr> result_map, operand_map;
    std::vector<Read> reads;
  };
  std::vector<Saved> saved;
  const std::vector<IterationDim> dims = groups[moved].dims;
  if (!ok) {
    for (int i : groups[moved].nodes) saved.push_back({nodes[i].result_map, nodes[i].operand_map, nodes[i].reads});
    remap(moved, moved == a ? gb.dims : ga.dims, images);
    ok = (!alike && edges_match(a, b)) || (moved == b && solve_permutation(b, a) && edges_match(a, b));
  }
  if (ok) {
    join(a, b);
    return true;
  }
  for (size_t k = 0; k < saved.size(); ++k) {
    SchedulerNode& u = nodes[groups[moved].nodes[k]];
    u.result_map = std::move(saved[k].result_map);
    u.operand_map = std::move(saved[k].operand_map);
    u.reads = std::move(saved[k].reads);
  }
  groups[moved].dims = dims;
  return false;
}

// Merges a into b, the later one.
void Fusion::join(int a, int b) {
  VESTA_CHECK(a < b, "group {} is merged into an earlier one, {}", a, b);
  FusionGroup& ga = groups[a];
  FusionGroup& gb = groups[b];
  for (int i : ga.nodes) nodes[i].group = b;
  std::vector<int> all;
  std::merge(ga.nodes.begin(), ga.nodes.end(), gb.nodes.begin(), gb.nodes.end(), std::back_inserter(all));
  gb.nodes = std::move(all);
  gb.reduces |= ga.reduces;
  gb.windowed |= ga.windowed;
  gb.products += ga.products;
  gb.cost += ga.cost;
  gb.first = std::min(ga.first, gb.first);
  gb.last = std::max(ga.last, gb.last);
  merge_into(gb.deps, ga.deps);
  clear(gb.deps, a);
  clear(gb.deps, b);
  ga.alive = false;
  ga.nodes.clear();
  ga.deps.clear();
  gb.oldest = std::min(ga.oldest, gb.oldest);
  for (int x = 0; x < static_cast<int>(groups.size()); ++x) {
    FusionGroup& g = groups[x];
    if (x == b || !g.alive) continue;
    const bool on_a = has(g.deps, a), on_b = has(g.deps, b);
    if (!on_a && !on_b) continue;
    clear(g.deps, a);
    set(g.deps, b);
    if (!on_a || !on_b) merge_into(g.deps, gb.deps);  // otherwise it has them already
  }
}

bool Fusion::is_small(const FusionGroup& g) const {
  int64_t steps = 1;
  for (const IterationDim& r : g.dims) steps *= hint(r.extent);
  return steps <= limits_.shared_elements;
}

// Merges groups over the same dimensions that read the same value, so that it is read once. For small values this pays
// only in small groups, where one launch less counts.
void Fusion::merge_siblings() {
  std::unordered_map<const Value*, std::vector<int>> readers;
  std::vector<const Value*> order;
  for (const FusionGroup& g : groups) {
    if (!g.alive || !g.fusable) continue;
    const int64_t least = is_small(g) ? 0 : limits_.shared_elements;
    for (int i : g.nodes) {
      for (const Read& r : nodes[i].reads) {
        if (!r.base || r.opaque || hint_numel(r.base->type.sizes) < least) continue;
        auto& list = readers[r.base];
        if (list.empty()) order.push_back(r.base);
        if (list.empty() || list.back() != nodes[i].group) list.push_back(nodes[i].group);
      }
    }
  }
  const auto reads_alike = [&](int a, int b, const Value* v) {
    for (int i : groups[a].nodes) {
      for (const Read& r : nodes[i].reads) {
        if (r.base != v || r.opaque) continue;
        for (int j : groups[b].nodes) {
          for (const Read& q : nodes[j].reads)
            if (q.base == v && !q.opaque && r.index == q.index) return true;
        }
      }
    }
    return false;
  };
  for (const Value* v : order) {
    const std::vector<int>& list = readers[v];
    for (size_t k = 0; k + 1 < list.size(); ++k) {
      const int a = list[k], b = list[k + 1];
      if (may_join(a, b) && reads_alike(a, b, v) && !delays_replacement(a, b) && !delays_replacement(b, a))
        try_merge(a, b);
    }
  }
  if (limits_.launch_counts) merge_small_reductions();
}

bool Fusion::may_join(int a, int b) const {
  return a != b && groups[a].alive && groups[b].alive && groups[a].dims == groups[b].dims &&
         std::abs(groups[b].first - groups[a].last) < limits_.distance && !depends(b, a) && !depends(a, b);
}

// A reduction of few elements, such as the second kernel of a split reduction, takes as long as its launch. One kernel
// computes several of them.
void Fusion::merge_small_reductions() {
  std::vector<int> small;
  for (int g = 0; g < static_cast<int>(groups.size()); ++g)
    if (groups[g].alive && groups[g].fusable && groups[g].reduces && is_small(groups[g])) small.push_back(g);
  for (size_t k = 0; k < small.size(); ++k) {
    for (size_t l = k + 1; l < small.size() && groups[small[k]].alive; ++l) {
      const int a = small[k], b = small[l];
      if (groups[b].first - groups[a].last >= limits_.distance) break;
      if (may_join(a, b) && !delays_replacement(a, b) && !delays_replacement(b, a)) try_merge(a, b);
    }
  }
}

std::vector<int> Fusion::dissolve(int g) {
  std::vector<int> members = groups[g].nodes, made;
  std::vector<uint64_t> before = groups[g].deps;
  groups[g].alive = false;
  groups[g].nodes.clear();
  for (int i : members) {
    nodes[i].group = -1;
  }
  for (int i : members) {
    open_group(i);
    made.push_back(nodes[i].group);
  }
  for (FusionGroup& other : groups) {
    if (!other.alive || !has(other.deps, g)) continue;
    clear(other.deps, g);
    merge_into(other.deps, before);
    for (int m : made) set(other.deps, m);
  }
  return made;
}

}  // namespace vesta::schedule
