#include "graph/recompute_choice.h"

#include <algorithm>

#include "graph/min_cut.h"

namespace vesta::graph {
namespace {

using Item = RecomputeProblem::Item;
using Storage = RecomputeProblem::Storage;

constexpr int kMostHalvings = 24;           // of the weight of time against bytes
constexpr int kMostCuts = 8;                // after the first, to shorten chains
constexpr int64_t kMostVisits = 2'000'000;  // of items and storages, while changes are tried

struct Solution {
  RecomputeChoice choice;
  Outcome outcome;
};

class Solver {
 public:
  Solver(const RecomputeProblem& p, int64_t most_bytes) : p_(p), most_bytes_(most_bytes) {}

  RecomputeChoice run() {
    const Solution fastest = solve(0, false);
    if (fits(fastest)) return fastest.choice;
    Solution best = fastest;
    for (const bool library_calls : {false, true}) {
      Solution fewest = solve(kMostHalvings, library_calls);
      if (!fits(fewest)) {
        if (fewest.outcome.bytes < best.outcome.bytes) best = std::move(fewest);
        continue;
      }
      Solution found = search(fastest, std::move(fewest), library_calls);
      if (!fits(best) || found.outcome.time < best.outcome.time) best = std::move(found);
    }
    return std::move(best.choice);
  }

 private:
  bool fits(const Solution& s) const { return s.outcome.bytes <= most_bytes_; }
  // The weight of time falls until the bytes fit, at the latest with `fewest`.
  Solution search(Solution before, Solution fewest, bool library_calls) const {
    Solution found = std::move(fewest);
    for (int halvings = library_calls ? 0 : 1; halvings < kMostHalvings; ++halvings) {
      Solution s = solve(halvings, library_calls);
      if (fits(s)) {
        found = std::move(s);
        break;
      }
      before = std::move(s);
    }
    // Between the last two weights, layers that are alike change all at once: some of them are enough.
    mix(before, found);
    improve(found);
    return found;
  }

  // The vertices are the source, the sink, the items and the storages. On the sink's side: items that the backward
  // computes, storages that it needs.
  int vertex_of_item(size_t i) const { return static_cast<int>(2 + i); }
  int vertex_of_storage(int s) const { return static_cast<int>(2 + p_.items.size()) + s; }

  bool is_fixed(const Item& item, bool library_calls) const {
    return item.pinned || item.leaves_region || (item.library && !library_calls && !item.in_region);
  }

  // The minimum of bytes + time / 2^halvings, where chains that are too long end at saved values.
  Solution solve(int halvings, bool library_calls) const {
    RecomputeChoice choice{Recomputes(p_.items.size()), std::vector<char>(p_.items.size())};
    for (int cuts = 0;; ++cuts) {
      choice.recomputes = cut(halvings, library_calls, choice.ends_chain);
      if (!shorten(choice)) return {choice, outcome_of(p_, choice.recomputes)};
      if (cuts == kMostCuts) break;
    }
    // Cuts move chains elsewhere again and again: nothing is computed again that may be saved.
    for (size_t i = 0; i < p_.items.size(); ++i)
      if (p_.items[i].program && may_save(p_.items[i])) choice.ends_chain[i] = true;
    choice.recomputes = cut(halvings, library_calls, choice.ends_chain);
    return {choice, outcome_of(p_, choice.recomputes)};
  }

  Recomputes cut(int halvings, bool library_calls, const std::vector<char>& ends_chain) const {
    constexpr int kSource = 0, kSink = 1;
    MinCut network(2 + p_.items.size() + p_.storages.size());
    const auto weighted = [&](int64_t time) { return (time + (int64_t{1} << halvings) - 1) >> halvings; };
    for (size_t i = 0; i < p_.items.size(); ++i) {
      const Item& item = p_.items[i];
      const bool fixed = is_fixed(item, library_calls) || ends_chain[i];
      network.add_edge(kSource, vertex_of_item(i), fixed ? MinCut::kInfinite : weighted(item.cost));
      for (const int s : item.reads) network.add_edge(vertex_of_storage(s), vertex_of_item(i), MinCut::kInfinite);
    }
    for (size_t k = 0; k < p_.storages.size(); ++k) {
      const Storage& s = p_.storages[k];
      const int vertex = vertex_of_storage(static_cast<int>(k));
      const int64_t cost = s.bytes * kUnits + weighted(s.load * kUnits);
      const int from = s.item < 0 ? kSource : vertex_of_item(static_cast<size_t>(s.item));
      network.add_edge(from, vertex, s.may_save ? cost : MinCut::kInfinite);
      if (s.required) network.add_edge(vertex, kSink, MinCut::kInfinite);
    }
    const std::vector<char> kept = network.source_side(kSource, kSink);
    Recomputes out(p_.items.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = !kept[static_cast<size_t>(vertex_of_item(i))];
    return out;
  }

  // Marks items whose results are to be saved so that no chain is too long: those that cross the narrowest place of
  // each chain, where the fewest bytes pass from nodes before it to nodes after it. Returns whether it marked any.
  bool shorten(RecomputeChoice& choice) const {
    const size_t n = p_.items.size();
    const Outcome now = outcome_of(p_, choice.recomputes);
    const std::vector<size_t> last = last_readers(now);
    const std::vector<int64_t> crossing = bytes_that_cross(now, last);
    std::vector<int> fused(n), calls(n);
    bool any = false;
    size_t begin = 0;  // of the chains that are not yet divided
    for (size_t i = 0; i < n; ++i) {
      if (!now.computed[i]) continue;
      const Item& item = p_.items[i];
      fused[i] = calls[i] = 0;
      for_each_computed_operand(now, item, [&](size_t from) {
        if (from < begin) return;
        fused[i] = std::max(fused[i], fused[from]);
        calls[i] = std::max(calls[i], calls[from]);
      });
      if (!item.program) continue;
      fused[i] = item.library ? 0 : fused[i] + 1;
      calls[i] += item.library;
      if (fused[i] <= kMostFused && calls[i] <= kMostCalls) continue;
      size_t narrow = i - 1;
      for (size_t k = i - 1; k-- > begin;)
        if (crossing[k] < crossing[narrow]) narrow = k;
      for (size_t k = 0; k <= narrow; ++k) {
        if (!now.computed[k] || last[k] <= narrow || choice.ends_chain[k]) continue;
        if (p_.items[k].program && may_save(p_.items[k])) choice.ends_chain[k] = any = true;
      }
      begin = narrow + 1;
      i = narrow;
    }
    return any;
  }

  template <class F>
  void for_each_computed_operand(const Outcome& now, const Item& item, F&& fn) const {
    for (const int s : item.reads) {
      const int from = p_.storages[static_cast<size_t>(s)].item;
      if (from >= 0 && now.computed[static_cast<size_t>(from)]) fn(static_cast<size_t>(from));
    }
  }
  // For each item, the last of those that are computed again with its results.
  std::vector<size_t> last_readers(const Outcome& now) const {
    std::vector<size_t> last(p_.items.size());
    for (size_t i = 0; i < p_.items.size(); ++i)
      if (now.computed[i]) for_each_computed_operand(now, p_.items[i], [&](size_t from) { last[from] = i; });
    return last;
  }
  // For each item, the bytes of results of it and of items before it that items after it read.
  std::vector<int64_t> bytes_that_cross(const Outcome& now, const std::vector<size_t>& last) const {
    std::vector<int64_t> out(p_.items.size() + 1);
    for (size_t i = 0; i < p_.items.size(); ++i) {
      if (!now.computed[i] || last[i] <= i) continue;
      int64_t bytes = 0;
      for (const int s : p_.items[i].writes) bytes += p_.storages[static_cast<size_t>(s)].bytes;
      out[i] += bytes;
      out[last[i]] -= bytes;
    }
    for (size_t i = 1; i < out.size(); ++i) out[i] += out[i - 1];
    return out;
  }

  bool may_save(const Item& item) const {
    return std::ranges::all_of(item.writes, [&](int s) { return p_.storages[static_cast<size_t>(s)].may_save; });
  }

  // Replaces `found` by a choice that follows it for the items on one side of a place, and `before` for the others.
  void mix(const Solution& before, Solution& found) const {
    const size_t n = p_.items.size();
    Solution best = found;
    for (const bool first_part : {true, false}) {
      // The bytes fit with all items from `found`. The search ends where they fit and with one item less do not.
      size_t low = 0, high = n;
      while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        Solution s = mixed(before, found, middle, first_part);
        if (fits(s)) {
          high = middle;
          if (s.outcome.time < best.outcome.time && !too_long(s)) best = std::move(s);
        } else {
          low = middle;
        }
      }
    }
    found = std::move(best);
  }

  Solution mixed(const Solution& before, const Solution& found, size_t count, bool first_part) const {
    Solution s = before;
    const size_t n = p_.items.size(), begin = first_part ? 0 : n - count, end = begin + count;
    for (size_t i = begin; i < end; ++i) {
      s.choice.recomputes[i] = found.choice.recomputes[i];
      s.choice.ends_chain[i] = found.choice.ends_chain[i];
    }
    s.outcome = outcome_of(p_, s.choice.recomputes);
    return s;
  }

  // Changes of one item, then of two and of three at once, as long as they save time and the bytes still fit.
  void improve(Solution& s) const {
    int64_t visits = 0;
    size_t count = 1;
    while (count <= 3) count = improve_by(s, count, 0, {}, visits) ? 1 : count + 1;
  }
  // Changes `count` more items from `begin` on, besides those of `changes`. Returns whether this saved time.
  bool improve_by(Solution& s, size_t count, size_t begin, std::vector<size_t> changes, int64_t& visits) const {
    if (count == 0) return try_changes(s, changes, visits);
    bool any = false;
    for (size_t i = begin; i < p_.items.size() && visits <= kMostVisits; ++i) {
      if (!may_change(s, i)) continue;
      changes.push_back(i);
      any |= improve_by(s, count - 1, i + 1, changes, visits);
      changes.pop_back();
    }
    return any;
  }
  bool may_change(const Solution& s, size_t i) const {
    const Item& item = p_.items[i];
    if (item.pinned || item.leaves_region || s.choice.ends_chain[i]) return false;
    return !s.choice.recomputes[i] || may_save(item);
  }
  bool try_changes(Solution& s, const std::vector<size_t>& items, int64_t& visits) const {
    visits += static_cast<int64_t>(p_.items.size() + p_.storages.size());
    Recomputes changed = s.choice.recomputes;
    for (const size_t i : items) changed[i] = !changed[i];
    Outcome outcome = outcome_of(p_, changed);
    if (outcome.bytes > most_bytes_ || outcome.time >= s.outcome.time) return false;
    Solution other{{std::move(changed), s.choice.ends_chain}, std::move(outcome)};
    if (too_long(other)) return false;
    s = std::move(other);
    return true;
  }
  bool too_long(const Solution& s) const {
    RecomputeChoice copy = s.choice;
    return shorten(copy);
  }

  const RecomputeProblem& p_;
  const int64_t most_bytes_;
};

}  // namespace

namespace {

constexpr size_t kFewNodes = 4;

// A result that is saved, and the items that compute it from other results that are saved.
struct Exchange {
  int storage = -1;
  std::vector<int> items;
  int64_t bytes = 0, time = 0;  // that are not saved then, and that it takes
};

class Room {
 public:
  Room(const RecomputeProblem& p, RecomputeChoice& choice)
      : p_(p), choice_(choice), now_(outcome_of(p, choice.recomputes)), is_read_(p.storages.size()) {}

  void leave(int64_t most_bytes, int64_t loads_per_byte) {
    std::vector<Exchange> found;
    for (size_t s = 0; s < p_.storages.size() && now_.bytes > most_bytes; ++s) add(static_cast<int>(s), found);
    std::ranges::stable_sort(found, [](const Exchange& a, const Exchange& b) {
      return static_cast<double>(a.time) * static_cast<double>(b.bytes) <
             static_cast<double>(b.time) * static_cast<double>(a.bytes);
    });
    for (const Exchange& e : found) {
      if (now_.bytes <= most_bytes || e.time > loads_per_byte * kUnits * e.bytes) return;
      if (!is_read_[static_cast<size_t>(e.storage)]) make(e);
    }
  }

 private:
  // Whether these items can compute the storage: adds them.
  bool can_compute(int s, std::vector<int>& items) const {
    const int i = p_.storages[static_cast<size_t>(s)].item;
    if (i < 0) return false;
    const Item& item = p_.items[static_cast<size_t>(i)];
    if (std::ranges::find(items, i) != items.end()) return true;
    if (item.library || item.pinned || item.in_region || items.size() == kFewNodes) return false;
    items.push_back(i);
    return std::ranges::all_of(item.reads, [&](int r) {
      const bool is_input = p_.storages[static_cast<size_t>(r)].item < 0;  // the bytes of a copy count, if it needs one
      return is_input || now_.saved[static_cast<size_t>(r)] || can_compute(r, items);
    });
  }

  Recomputes with(const std::vector<int>& items) const {
    Recomputes out = choice_.recomputes;
    for (const int i : items) out[static_cast<size_t>(i)] = true;
    return out;
  }

  void add(int s, std::vector<Exchange>& to) const {
    Exchange e{.storage = s};
    if (!now_.saved[static_cast<size_t>(s)] || p_.storages[static_cast<size_t>(s)].bytes == 0) return;
    if (!can_compute(s, e.items)) return;
    const Outcome then = outcome_of(p_, with(e.items));
    e.bytes = now_.bytes - then.bytes;
    e.time = then.time - now_.time;
    if (e.bytes > 0) to.push_back(std::move(e));
  }

  void make(const Exchange& e) {
    Recomputes made = with(e.items);
    Outcome then = outcome_of(p_, made);
    if (then.bytes >= now_.bytes) return;
    choice_.recomputes = std::move(made);
    now_ = std::move(then);
    for (const int i : e.items)
      for (const int s : p_.items[static_cast<size_t>(i)].reads) is_read_[static_cast<size_t>(s)] = true;
  }

  const RecomputeProblem& p_;
  RecomputeChoice& choice_;
  Outcome now_;
  std::vector<char> is_read_;  // by storage: what is computed again needs it
};

}  // namespace

void leave_room(RecomputeProblem& problem, RecomputeChoice& choice, int64_t most_bytes, int64_t loads_per_byte) {
  offer_copies(problem);
  Room(problem, choice).leave(most_bytes, loads_per_byte);
}

RecomputeChoice choose_recomputes(const RecomputeProblem& problem, int64_t most_bytes) {
  return Solver(problem, most_bytes).run();
}

}  // namespace vesta::graph
