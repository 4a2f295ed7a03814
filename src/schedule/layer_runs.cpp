#include "schedule/layer_runs.h"

#include <algorithm>

#include "schedule/step_equality.h"

namespace vesta::schedule {
namespace {

// A run has at least so many periods: what stands for each other is then seen twice.
constexpr int kLeastPeriods = 3;

class RunFinder {
 public:
  RunFinder(const Plan& few, const graph::Layers& layers)
      : few_(few),
        inputs_(places_in(layers.inputs, layers.dropped())),
        outputs_(places_in(layers.outputs, layers.dropped())),
        next_(few.buffers.size(), -1),
        before_(few.buffers.size(), -1),
        copies_(layers.mutations.whole.size()) {}

  std::optional<LayerRuns> run() {
    LayerRuns out;
    if (const auto found = find(few_.prepacked)) {
      out.prepacked = *found;
    } else if (std::ranges::any_of(few_.prepacked, [&](const Step& s) { return is_of_a_layer(s); })) {
      return {};
    }
    knows_constants_ = true;
    const auto found = find(std::span(few_.steps).first(few_.steps.size() - copies_));
    if (!found) return {};
    out.steps = *found;
    std::optional<graph::Chains> chains = graph::chains_of(next_, before_);
    if (!chains) return {};
    for (std::vector<int>& members : chains->members) out.chains.push_back({std::move(members)});
    out.places = std::move(chains->places);
    mark_last(few_.prepacked, out.prepacked, out);
    mark_last(few_.steps, out.steps, out);
    if (std::ranges::any_of(out.chains, [](const BufferChain& c) { return c.last < 0; })) return {};
    return out;
  }

 private:
  using Steps = std::span<const Step>;
  const Buffer& buffer(int b) const { return few_.buffers[static_cast<size_t>(b)]; }

  // Whether prepacked steps made it of what a layer has of its own.
  bool is_own_constant(int b) const {
    return knows_constants_ && buffer(b).role == BufferRole::Prepacked && next_[b] >= 0 && next_[b] != b;
  }

  // Whether it reads what a layer has of its own: an input, or what prepacked steps made of one.
  bool is_of_a_layer(const Step& s) const {
    bool is = false;
    for_each_buffer(s, [&](int b) {
      const bool own_input = buffer(b).role == BufferRole::Input && inputs_[buffer(b).input].chain >= 0;
      is = is || own_input || is_own_constant(b);
    });
    return is;
  }

  // Whether buffer y may be in the next layer what x is, by what is known without other steps.
  bool may_follow(int x, int y) const {
    const auto follows = [&](ChainPlace a, ChainPlace b) {
      return a.chain < 0 ? x == y : a.chain == b.chain && b.at == a.at + 1;
    };
    const Buffer &a = buffer(x), &b = buffer(y);
    if (a.role != b.role || a.type != b.type) return false;
    if (a.role == BufferRole::Input) return follows(inputs_[a.input], inputs_[b.input]);
    if (a.role == BufferRole::Output) return follows(outputs_[a.output], outputs_[b.output]);
    if (a.role == BufferRole::Prepacked && knows_constants_) return x == y || next_[x] == y;
    return true;
  }

  // The run of the shortest period that reads what layers have of their own. Its pairs of buffers stay in next_.
  std::optional<LayerRun> find(Steps steps) {
    const int n = static_cast<int>(steps.size());
    for (int period = 1; kLeastPeriods * period <= n; ++period) {
      LayerRun run = longest(steps, period);
      const std::vector<int> next = next_, before = before_;
      while (run.end - run.begin >= kLeastPeriods * period) {
        const bool fits = pair_buffers(steps, run);
        const auto first = steps.subspan(static_cast<size_t>(run.begin), static_cast<size_t>(period));
        if (fits && std::ranges::any_of(first, [&](const Step& s) { return is_of_a_layer(s); })) return run;
        next_ = next;
        before_ = before;
        if (fits) break;
      }
    }
    return {};
  }

  LayerRun longest(Steps steps, int period) const {
    const auto follow = [this](int x, int y) { return may_follow(x, y); };
    LayerRun best;
    const int n = static_cast<int>(steps.size());
    for (int begin = 0; begin + period < n;) {
      int end = begin;
      while (end + period < n && equal_steps(steps[end], steps[end + period], follow)) ++end;
      if (end - begin > best.end - best.begin) best = {begin, end, period};
      begin = end + 1;
    }
    best.end += period;
    return best;
  }

  // Pairs the buffers of each step of the run with those of the step a period later. Where a buffer would get two
  // partners, leaves out the steps up to there, or from there on, and returns false.
  bool pair_buffers(Steps steps, LayerRun& run) {
    std::vector<int> paired_at(few_.buffers.size(), run.begin);
    for (int s = run.begin; s < run.last_period(); ++s) {
      int conflict = -1;  // the step at which the other pair was made
      equal_steps(steps[s], steps[s + run.period], [&](int x, int y) {
        if (buffer(x).role == BufferRole::Input) return true;
        if ((next_[x] >= 0 && next_[x] != y) || (before_[y] >= 0 && before_[y] != x)) {
          conflict = std::max({conflict, paired_at[x], paired_at[y]});
        } else {
          next_[x] = y;
          before_[y] = x;
          paired_at[x] = paired_at[y] = s;
        }
        return true;
      });
      if (conflict < 0) continue;
      if (conflict - run.begin < run.last_period() - s) {
        run.begin = conflict + 1;
      } else {
        run.end = s + run.period;
      }
      return false;
    }
    return true;
  }

  static void mark_last(Steps steps, const LayerRun& run, LayerRuns& out) {
    for (int s = run.last_period(); s < run.end; ++s)
      for_each_written(steps[s], [&](int b) {
        const ChainPlace p = out.places[b];
        if (p.chain >= 0) out.chains[p.chain].last = std::max(out.chains[p.chain].last, p.at);
      });
  }

  const Plan& few_;
  const std::vector<ChainPlace> inputs_, outputs_;
  std::vector<int> next_, before_;  // by buffer: what stands for it in the next layer, and in the one before
  bool knows_constants_ = false;    // the pairs of prepacked buffers are known
  const size_t copies_;
};

}  // namespace

std::vector<ChainPlace> places_in(const graph::Kept& kept, int dropped) {
  std::vector<ChainPlace> places(kept.whole.size());
  for (size_t c = 0; c < kept.chains.size(); ++c) {
    const std::vector<int>& chain = kept.chains[c];
    for (size_t k = 0; k + static_cast<size_t>(dropped) < chain.size(); ++k) {
      const auto at = std::ranges::lower_bound(kept.whole, chain[k]);
      places[static_cast<size_t>(at - kept.whole.begin())] = {static_cast<int>(c), static_cast<int>(k)};
    }
  }
  return places;
}

std::optional<LayerRuns> find_runs(const Plan& few, const graph::Layers& layers) {
  return RunFinder(few, layers).run();
}

}  // namespace vesta::schedule
