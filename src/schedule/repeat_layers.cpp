#include "schedule/repeat_layers.h"

#include <algorithm>
#include <set>

#include "schedule/layer_runs.h"
#include "schedule/lifetimes.h"
#include "schedule/step_equality.h"

namespace vesta::schedule {
namespace {

// So many layers at either end are planned with what is around them.
constexpr int kEdge = 3;

class Repeater {
 public:
  Repeater(const Plan& few, const graph::Graph& whole, const graph::Layers& layers, LayerRuns runs)
      : few_(few),
        whole_(whole),
        layers_(layers),
        more_(layers.dropped()),
        runs_(std::move(runs)),
        inputs_(places_in(layers.inputs, more_)),
        outputs_(places_in(layers.outputs, more_)) {}

  std::optional<Plan> run() {
    const size_t copies = layers_.mutations.whole.size();
    const auto steps = std::span(few_.steps).first(few_.steps.size() - copies);
    if (!stays_at_the_edges(few_.prepacked, runs_.prepacked) || !stays_at_the_edges(steps, runs_.steps)) return {};
    number_buffers(steps);
    repeat(few_.prepacked, runs_.prepacked, out_.prepacked);
    repeat(steps, runs_.steps, out_.steps);
    const auto mutated = spread(layers_.mutations, whole_.mutations.size(), [&](int m) {
      return std::get<CopyStep>(few_.steps[steps.size() + static_cast<size_t>(m)]).from;
    });
    auto outputs =
        spread(layers_.outputs, whole_.outputs.size(), [&](int o) { return few_.outputs[static_cast<size_t>(o)]; });
    if (!mutated || !outputs) return {};
    for (size_t m = 0; m < mutated->size(); ++m)
      out_.steps.emplace_back(CopyStep{(*mutated)[m], whole_.mutations[m].input});
    out_.outputs = std::move(*outputs);
    out_.device = few_.device;
    if (!is_whole()) return {};
    lay_out(out_);
    return std::move(out_);
  }

 private:
  using Steps = std::span<const Step>;
  const Buffer& buffer(int b) const { return few_.buffers[static_cast<size_t>(b)]; }
  bool is_input(int b) const { return buffer(b).role == BufferRole::Input; }
  ChainPlace place(int b) const { return is_input(b) ? inputs_[buffer(b).input] : runs_.places[b]; }

  // Whether the buffer belongs to the last layers, so that it belongs to other ones where layers are added; or to none.
  bool is_late(int b) const {
    const ChainPlace p = place(b);
    if (p.chain < 0) return true;
    if (!is_input(b)) return p.at + 1 >= runs_.chains[p.chain].last;
    return p.at >= static_cast<int>(layers_.inputs.chains[p.chain].size()) - more_ - kEdge;
  }

  // Whether steps before the run read the first layers alone, and steps after it the last.
  bool stays_at_the_edges(Steps steps, const LayerRun& run) const {
    bool all = true;
    for (int s = 0; s < static_cast<int>(steps.size()); ++s) {
      if (s >= run.begin && s < run.end) continue;
      for_each_buffer(steps[s], [&](int b) {
        const bool early = !is_input(b) || place(b).at < kEdge;
        all = all && (s < run.begin ? early : is_late(b));
      });
    }
    return all;
  }

  // ---- buffers -----------------------------------------------------------------------------------------------------

  // The index of the whole graph for an output of the graph with fewer layers, so many layers later.
  int whole_output(int output, int later) const {
    const ChainPlace p = outputs_[output];
    return p.chain < 0 ? layers_.outputs.whole[output] : layers_.outputs.chains[p.chain][p.at + later];
  }

  // Numbers the buffers of the plan with all layers as make_plan() would: inputs first, then in the order of the
  // program.
  void number_buffers(Steps steps) {
    const std::vector<int> templates = layers_.inputs.templates(whole_.inputs.size(), more_);
    for (size_t i = 0; i < templates.size(); ++i) {
      add(templates[i], 0);
      out_.buffers.back().input = static_cast<int>(i);
    }
    std::vector<char> after(few_.buffers.size(), 0);  // made after the layers
    const auto mark = [&](Steps list, const LayerRun& run) {
      for (int s = run.end; s < static_cast<int>(list.size()); ++s)
        for_each_written(list[s], [&](int b) { after[b] = 1; });
    };
    mark(few_.prepacked, runs_.prepacked);
    mark(steps, runs_.steps);
    std::vector<int> repeated;
    for (const BufferChain& c : runs_.chains) repeated.push_back(c.members[c.last]);
    std::ranges::sort(repeated);
    renumbered_.assign(few_.buffers.size(), -1);
    made_.resize(runs_.chains.size());
    for (int b = static_cast<int>(layers_.inputs.whole.size()); b < static_cast<int>(few_.buffers.size()); ++b) {
      renumbered_[b] = add(b, after[b] ? more_ : 0);
      if (repeated.empty() || b != repeated.back()) continue;
      for (int later = 1; later <= more_; ++later)
        for (const int r : repeated) made_[runs_.places[r].chain].push_back(add(r, later));
    }
  }

  int add(int b, int later) {
    Buffer& made = out_.buffers.emplace_back(buffer(b));
    templates_.push_back(b);
    made.first_step = made.last_step = -1;
    if (made.output >= 0) made.output = whole_output(made.output, later);
    return static_cast<int>(out_.buffers.size()) - 1;
  }

  // The buffer that is so many layers later what b is.
  int later_buffer(int b, int later) const {
    const ChainPlace p = place(b);
    if (is_input(b))
      return p.chain < 0 ? layers_.inputs.whole[buffer(b).input] : layers_.inputs.chains[p.chain][p.at + later];
    if (p.chain < 0) return renumbered_[b];
    const BufferChain& c = runs_.chains[p.chain];
    const int at = p.at + later;
    if (at <= c.last) return renumbered_[c.members[at]];
    if (at <= c.last + more_) return made_[p.chain][at - c.last - 1];
    return renumbered_[c.members[at - more_]];
  }

  BufferView later_view(BufferView v, int later) const {
    if (v.buffer >= 0) v.buffer = later_buffer(v.buffer, later);
    return v;
  }

  // ---- steps and results -------------------------------------------------------------------------------------------

  void repeat(Steps steps, const LayerRun& run, std::vector<Step>& out) const {
    const auto copy = [&](int begin, int end, int later) {
      for (int s = begin; s < end; ++s) {
        out.push_back(with_buffers(steps[s], [&](int b) { return later_buffer(b, later); }));
        if (auto* k = std::get_if<KernelStep>(&out.back())) k->values.clear();  // of another graph
      }
    };
    out.reserve(steps.size() + static_cast<size_t>(run.period) * static_cast<size_t>(more_));
    copy(0, run.end, 0);
    for (int later = 1; later <= more_; ++later) copy(run.last_period(), run.end, later);
    copy(run.end, static_cast<int>(steps.size()), more_);
  }

  // By index in the whole graph: where an output, or the new value of a mutated input, is in the end. view_of: by index
  // in the graph with fewer layers. None: it is not known which of them layers make.
  template <class F>
  std::optional<std::vector<BufferView>> spread(const graph::Kept& kept, size_t count, F&& view_of) const {
    std::vector<BufferView> out(count);
    const std::vector<ChainPlace> places = places_in(kept, more_);
    std::vector<std::vector<BufferView>> views(kept.chains.size());
    for (size_t i = 0; i < kept.whole.size(); ++i) {
      const BufferView v = view_of(static_cast<int>(i));
      if (places[i].chain < 0) {
        out[kept.whole[i]] = later_view(v, v.buffer >= 0 && is_late(v.buffer) ? more_ : 0);
      } else {
        auto& chain = views[places[i].chain];
        chain.resize(std::max(chain.size(), static_cast<size_t>(places[i].at) + 1));
        chain[places[i].at] = v;
      }
    }
    for (size_t c = 0; c < views.size(); ++c) {
      const std::vector<BufferView>& v = views[c];
      if (std::ranges::all_of(v, [](const BufferView& x) { return x.buffer < 0; })) continue;
      // The last that the run of layers makes, or an input that the kernels write in place.
      const auto is_made = [&](const BufferView& x) {
        if (x.buffer < 0) return false;
        const ChainPlace p = place(x.buffer);
        return p.chain >= 0 && (is_input(x.buffer) || p.at <= runs_.chains[p.chain].last);
      };
      int last = static_cast<int>(v.size()) - 1;
      while (last >= 0 && !is_made(v[last])) --last;
      if (last < 0) return {};
      for (int x = 0; x < static_cast<int>(kept.chains[c].size()); ++x) {
        const int from = std::clamp(last, x - more_, x);
        out[kept.chains[c][x]] = later_view(v[from], x - from);
      }
    }
    return out;
  }

  // The buffers that the steps read or write, and whether a buffer that is written at all is written before it is read.
  struct Use {
    std::vector<char> used, written;
    bool ordered = true;
  };
  static Use use_of(const Plan& plan, const std::vector<char>& is_made) {
    Use use{std::vector<char>(plan.buffers.size()), std::vector<char>(plan.buffers.size())};
    for (const auto* steps : {&plan.prepacked, &plan.steps}) {
      for (const Step& s : *steps) {
        for_each_written(s, [&](int b) { use.written[b] = 1; });
        for_each_buffer(s, [&](int b) {
          use.used[b] = 1;
          use.ordered = use.ordered && (use.written[b] || !is_made[b]);
        });
      }
    }
    return use;
  }

  // Whether the steps use what `few` uses, in each layer, and each output is in a place of its own.
  bool is_whole() const {
    const Use few = use_of(few_, std::vector<char>(few_.buffers.size(), 0));
    std::vector<char> is_made(out_.buffers.size());
    for (size_t b = 0; b < is_made.size(); ++b) is_made[b] = few.written[templates_[b]] && !is_input(templates_[b]);
    const Use use = use_of(out_, is_made);
    bool whole = use.ordered;
    std::set<int> given;
    for (size_t b = 0; b < is_made.size(); ++b) {
      whole = whole && use.used[b] == few.used[templates_[b]] && use.written[b] == few.written[templates_[b]];
      const Buffer& made = out_.buffers[b];
      if (made.role == BufferRole::Output) whole = whole && given.insert(made.output).second;
    }
    for (size_t o = 0; o < out_.outputs.size(); ++o) {
      const int b = out_.outputs[o].buffer;
      if (b < 0) continue;
      const Buffer& made = out_.buffers[static_cast<size_t>(b)];
      whole = whole && (made.role != BufferRole::Output || made.output == static_cast<int>(o));
    }
    return whole;
  }

  const Plan& few_;
  const graph::Graph& whole_;
  const graph::Layers& layers_;
  const int more_;  // layers that the plan lacks
  const LayerRuns runs_;
  const std::vector<ChainPlace> inputs_, outputs_;
  std::vector<int> renumbered_;         // by buffer of `few`
  std::vector<int> templates_;          // by buffer of the new plan: the one of `few` that it is a copy of
  std::vector<std::vector<int>> made_;  // by chain: its buffers of the layers that are added
  Plan out_;
};

}  // namespace

std::optional<Plan> repeat_layers(const Plan& few, const graph::Graph& whole, const graph::Layers& layers) {
  std::optional<LayerRuns> runs = find_runs(few, layers);
  if (!runs) return {};
  return Repeater(few, whole, layers, std::move(*runs)).run();
}

}  // namespace vesta::schedule
