#include "graph/recompute_problem.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace vesta::graph {
namespace {

constexpr int64_t kNever = int64_t{1} << 46;  // bytes: more than there are
constexpr int64_t kWriteOfCopy = 4;           // the write of a copy takes 1 / kWriteOfCopy of the time of a load
constexpr double kMostCost = 1e16;            // half a minute on a GPU: sums of costs stay far from overflow

void read_copy_of(RecomputeProblem::Storage& s) {
  s.copied = true;
  s.bytes = memory_bytes(s.value->type);
  s.load = s.bytes / kWriteOfCopy;
}

bool draws(const Node& n) {
  if (!n.op->has(kRandom)) return false;
  // Attention draws only for its dropout.
  return n.op->schema.index_of("dropout_p") < 0 || n.named().number("dropout_p") != 0;
}

// The tensor whose memory a view shows; nullptr if the node is no view.
Value* viewed(const Node& n) {
  if (n.op->family() == Family::View) return n.input(0);
  if (!n.op->schema.is_view()) return nullptr;
  const auto& args = n.op->schema.args;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].aliased && std::holds_alternative<Value*>(n.args()[i])) return n.input(i);
  return nullptr;
}

// It may draw, or give another result in another call.
bool is_unknown(const Node& n) { return !n.op->row && !viewed(n); }

void add_once(std::vector<int>& list, int x) {
  if (std::ranges::find(list, x) == list.end()) list.push_back(x);
}

class Maker {
 public:
  Maker(const Graph& g, size_t first_tangent, size_t first_gradient, const Target& target, const RegionOf& region_of,
        bool limited)
      : g_(g),
        first_gradient_(first_gradient),
        speeds_(target),
        region_of_(region_of),
        limited_(limited),
        storage_of_(g.value_count(), -1),
        backward_(g.value_count()),
        needed_(g.value_count()) {
    VESTA_CHECK(first_tangent <= g.inputs.size() && first_gradient <= g.outputs.size(),
                "the graph has {} inputs and {} outputs", g.inputs.size(), g.outputs.size());
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const Value* const v = g.inputs[i].value;
      if (i < first_tangent) {
        add_storage(v, -1);
      } else {
        backward_[v->id] = true;
      }
    }
  }

  RecomputeProblem run() {
    divide();
    find_needed();
    add_items();
    mark_required();
    mark_alive();
    set_regions();
    set_loads();
    set_costs();
    return std::move(out_);
  }

 private:
  void add_storage(const Value* v, int item) {
    storage_of_[v->id] = static_cast<int>(out_.storages.size());
    out_.storages.push_back(
        {.value = const_cast<Value*>(v), .item = item, .bytes = item < 0 ? 0 : memory_bytes(v->type)});
  }
  RecomputeProblem::Storage& storage(const Value* v) {
    const int s = storage_of_[v->id];
    VESTA_CHECK(s >= 0, "%{} is no forward value", v->id);
    return out_.storages[static_cast<size_t>(s)];
  }
  bool is_backward(const Value* v) const { return backward_[v->id]; }

  void divide() {
    g_.for_each_node([&](const Node* n) {
      bool any = false;
      n->for_each_input([&](const Value* v) { any |= is_backward(v); });
      for (const Value* v : n->results)
        if (v) backward_[v->id] = any;
      if (!any) forward_.push_back(n);
    });
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Output& o = g_.outputs[i];
      const bool of_program = i < first_gradient_;
      VESTA_CHECK(!of_program || !o.value || !is_backward(o.value), "output {} of the program depends on a tangent", i);
      const bool is_view = o.kind == OutputKind::Input || o.kind == OutputKind::InputView;
      VESTA_CHECK(
          of_program || o.kind == OutputKind::Fresh || o.kind == OutputKind::None || (is_view && is_backward(o.value)),
          "gradient {} is neither a tensor of its own nor a view of a tangent", i - first_gradient_);
    }
  }

  // What outputs and mutations of the program need, and what is not computed in the backward graph instead.
  void find_needed() {
    for (size_t i = 0; i < first_gradient_; ++i)
      if (g_.outputs[i].value) needed_[g_.outputs[i].value->id] = true;
    for (const Mutation& m : g_.mutations)
      if (!is_backward(m.value)) needed_[m.value->id] = true;
    for (size_t i = forward_.size(); i-- > 0;) {
      const Node& n = *forward_[i];
      bool needed = n.raises || draws(n) || is_unknown(n);
      for (const Value* v : n.results) needed |= v && needed_[v->id];
      if (!needed) continue;
      for (const Value* v : n.results)
        if (v) needed_[v->id] = true;
      n.for_each_input([&](const Value* v) { needed_[v->id] = true; });
    }
  }

  void add_items() {
    for (const Node* n : forward_) {
      if (const Value* base = viewed(*n)) {
        for (const Value* v : n->results)
          if (v) storage_of_[v->id] = storage_of_[base->id];
        continue;
      }
      const int item = static_cast<int>(out_.items.size());
      RecomputeProblem::Item& made = out_.items.emplace_back();
      made.node = n;
      n->for_each_input([&](const Value* v) { add_once(made.reads, storage_of_[v->id]); });
      for (const Value* v : n->results) {
        if (!v) continue;
        made.program |= static_cast<bool>(needed_[v->id]);
        add_storage(v, item);
        made.writes.push_back(storage_of_[v->id]);
      }
      works_.push_back(work_of(*n));
      made.library = made.program && !works_.back().fuses;
      made.pinned = made.program && (draws(*n) || is_unknown(*n));
    }
    in_memory_.resize(out_.storages.size());
  }

  // Those that a gradient or a mutation needs.
  std::vector<const Node*> backward_nodes() {
    std::vector<char> wanted(g_.value_count());
    for (size_t i = first_gradient_; i < g_.outputs.size(); ++i)
      if (g_.outputs[i].value) wanted[g_.outputs[i].value->id] = true;
    for (const Mutation& m : g_.mutations) wanted[m.value->id] = true;
    std::vector<const Node*> out;
    for (const Node* n = g_.last(); n; n = n->prev) {
      const auto has = [&](const std::vector<char>& list) {
        return std::ranges::any_of(n->results, [&](const Value* v) { return v && list[v->id]; });
      };
      if (!has(backward_)) continue;
      if (!n->raises && !draws(*n) && !is_unknown(*n) && !has(wanted)) continue;
      out.push_back(n);
      n->for_each_input([&](const Value* v) { wanted[v->id] = true; });
    }
    return out;
  }

  void mark_required() {
    for (const Node* n : backward_nodes()) {
      bool reads_forward = false;
      n->for_each_input([&](const Value* v) {
        if (is_backward(v)) return;
        storage(v).required = true;
        reads_forward = true;
      });
      if (!reads_forward || viewed(*n) || work_of(*n).fuses) continue;
      n->for_each_input([&](const Value* v) {
        if (!is_backward(v)) in_memory_[static_cast<size_t>(storage_of_[v->id])] = true;
      });
    }
    for (size_t i = first_gradient_; i < g_.outputs.size(); ++i) {
      const Value* const v = g_.outputs[i].value;
      if (v && !is_backward(v)) storage(v).required = true;
    }
  }

  void mark_alive() {
    for (const Mutation& m : g_.mutations) {
      if (is_backward(m.value)) continue;
      RecomputeProblem::Storage& s = storage(g_.inputs[static_cast<size_t>(m.input)].value);
      s.bytes = memory_bytes(s.value->type);
    }
    for (size_t i = 0; i < first_gradient_; ++i) {
      const Output& o = g_.outputs[i];
      if (o.kind == OutputKind::Fresh && storage(o.value).item >= 0) storage(o.value).bytes = 0;
    }
  }

  // What nodes outside of the region read may be saved, and so may be what cannot be computed again.
  void set_regions() {
    if (!region_of_) return;
    std::vector<int> region(out_.storages.size(), -1);
    for (RecomputeProblem::Item& item : out_.items) {
      const int r = region_of_(item.node);
      item.in_region = r >= 0 && item.program && !item.pinned;
      if (!item.in_region) continue;
      for (const int s : item.writes) {
        region[static_cast<size_t>(s)] = r;
        out_.storages[static_cast<size_t>(s)].may_save = false;
      }
    }
    for (const RecomputeProblem::Item& item : out_.items) {
      if (!item.program) continue;
      for (const int s : item.reads) {
        const int r = region[static_cast<size_t>(s)];
        if (r >= 0 && region_of_(item.node) != r) out_.storages[static_cast<size_t>(s)].may_save = true;
      }
    }
    for (size_t i = 0; i < first_gradient_; ++i)
      if (const Value* v = g_.outputs[i].value; v && !is_backward(v)) storage(v).may_save = true;
    // Otherwise the backward pass would run through all regions before its first step, and hold what each computes.
    for (RecomputeProblem::Item& item : out_.items) {
      const auto may_save = [&](int s) { return out_.storages[static_cast<size_t>(s)].may_save; };
      item.leaves_region = item.in_region && std::ranges::any_of(item.writes, may_save);
      if (!item.leaves_region) continue;
      for (const int s : item.writes) out_.storages[static_cast<size_t>(s)].may_save = true;
    }
  }

  // Storages that are alive: what is read of them, if eager's backward does not read them.
  void set_loads() {
    for (const Node* n : forward_) {
      if (n->op->family() == Family::Indexed || viewed(*n)) continue;  // the cost of a gather includes its loads
      n->for_each_input([&](const Value* v) {
        RecomputeProblem::Storage& s = storage(v);
        if (s.bytes == 0) s.load = std::max(s.load, memory_bytes(v->type));
      });
    }
    int64_t working_set = 0;
    const std::vector<char> loaded = outcome_of(out_, eager_recomputes(out_)).saved;
    for (size_t s = 0; s < loaded.size(); ++s) {
      if (!loaded[s]) {
        // The program may write to what eager does not save.
        RecomputeProblem::Storage& alive = out_.storages[s];
        if (alive.bytes != 0 || limited_) continue;
        if (alive.item >= 0 && is_non_overlapping_and_dense(alive.value->type)) {
          read_copy_of(alive);
        } else {
          alive.load = kNever;
        }
        continue;
      }
      out_.storages[s].load = 0;
      working_set += memory_bytes(out_.storages[s].value->type);
    }
    out_.bytes_per_ns = speeds_.bytes_per_ns(working_set);
  }

  void set_costs() {
    for (size_t i = 0; i < out_.items.size(); ++i) {
      RecomputeProblem::Item& item = out_.items[i];
      if (!item.program) continue;
      double bytes = speeds_.nanoseconds(works_[i]) * out_.bytes_per_ns;
      for (const int s : item.writes) {
        const auto size = static_cast<double>(memory_bytes(out_.storages[static_cast<size_t>(s)].value->type));
        if (in_memory_[static_cast<size_t>(s)]) bytes += 2 * size;
        if (item.node->op->family() == Family::Indexed) bytes += size;
      }
      item.cost = 1 + static_cast<int64_t>(std::ceil(std::min(bytes * kUnits, kMostCost)));
    }
  }

  const Graph& g_;
  const size_t first_gradient_;
  const Speeds speeds_;
  const RegionOf& region_of_;
  const bool limited_;
  std::vector<const Node*> forward_;
  std::vector<int> storage_of_;          // by value
  std::vector<char> backward_, needed_;  // by value
  std::vector<char> in_memory_;          // by storage: a library call of the backward reads it
  std::vector<Work> works_;              // by item
  RecomputeProblem out_;
};

}  // namespace

RecomputeProblem make_problem(const Graph& joint, size_t first_tangent, size_t first_gradient, const Target& target,
                              const RegionOf& region_of, bool limited) {
  return Maker(joint, first_tangent, first_gradient, target, region_of, limited).run();
}

void offer_copies(RecomputeProblem& p) {
  for (RecomputeProblem::Storage& s : p.storages)
    if (s.item < 0 && s.load >= kNever && is_non_overlapping_and_dense(s.value->type)) read_copy_of(s);
}

Outcome outcome_of(const RecomputeProblem& p, const Recomputes& recomputes) {
  Outcome out{std::vector<char>(p.storages.size()), std::vector<char>(p.items.size()), 0, 0};
  std::vector<char> needed(p.storages.size());
  for (size_t s = 0; s < p.storages.size(); ++s) needed[s] = p.storages[s].required;
  for (size_t i = p.items.size(); i-- > 0;) {
    const RecomputeProblem::Item& item = p.items[i];
    const bool any = std::ranges::any_of(item.writes, [&](int s) { return needed[static_cast<size_t>(s)]; });
    if (!any || !recomputes[i]) continue;
    out.computed[i] = true;
    out.time += item.cost;
    for (const int s : item.reads) needed[static_cast<size_t>(s)] = true;
  }
  for (size_t s = 0; s < p.storages.size(); ++s) {
    const RecomputeProblem::Storage& storage = p.storages[s];
    if (!needed[s] || (storage.item >= 0 && out.computed[static_cast<size_t>(storage.item)])) continue;
    out.saved[s] = true;
    out.bytes += storage.bytes;
    out.time += (storage.bytes + storage.load) * kUnits;
  }
  return out;
}

Recomputes eager_recomputes(const RecomputeProblem& p) {
  Recomputes out(p.items.size());
  for (size_t i = 0; i < p.items.size(); ++i) {
    const auto may_save = [&](int s) { return p.storages[static_cast<size_t>(s)].may_save; };
    out[i] = !p.items[i].program || !std::ranges::all_of(p.items[i].writes, may_save);
  }
  return out;
}

}  // namespace vesta::graph
