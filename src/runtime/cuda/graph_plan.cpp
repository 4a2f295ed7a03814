#include "runtime/cuda/graph_plan.h"

#include <ATen/EmptyTensor.h>
#include <fmt/format.h>

#include <algorithm>

#include "artifact/uses.h"
#include "interop/find_operator.h"
#include "runtime/extern_call.h"
#include "runtime/ops/rows.h"

namespace vesta::runtime {
namespace {

using artifact::Role;

constexpr int kFewestSteps = 2;  // steps of a graph: launching one kernel costs as much as launching a graph
// A larger result that an extern call makes at the end of a program is made outside of graphs: copying it out of a
// graph would cost more than the launch.
constexpr int64_t kCopiedOut = int64_t{1} << 20;
// The bytes that may be copied out for each step in a graph. A graph saves 2 us of the CPU per step, in which a GPU
// copies this much.
constexpr int64_t kCopiedPerStep = int64_t{4} << 20;

bool is_on(const Device& found, const Device& wanted) {
  return found.type == wanted.type && std::max<int>(found.index, 0) == std::max<int>(wanted.index, 0);
}

bool same_memory(const artifact::Artifact& a, const artifact::Step& step, Device device) {
  bool on = true;
  artifact::for_each_use(step, [&](int b, uint8_t, bool) { on &= is_on(a.buffers[b].type.device, device); });
  return on;
}

int64_t bytes_of(const ResolvedTensor& t) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(t.sizes, t.strides, c10::elementSize(t.dtype)));
}

// Whether the step is an aten::index.Tensor without masks: the size of its result is that of its places.
bool reads_at_integers(const artifact::Extern& e) {
  const auto is_integer = [](const artifact::View& v) {
    return v.buffer < 0 || v.dtype == DType::I64 || v.dtype == DType::I32;
  };
  const auto* const places =
      e.op == "aten::index.Tensor" ? std::get_if<std::vector<artifact::View>>(&e.args[1].value) : nullptr;
  return places && std::all_of(places->begin(), places->end(), is_integer);
}

}  // namespace

std::string why_direct(const artifact::Artifact& a, const artifact::Step& step, Device device) {
  if (const auto* l = std::get_if<artifact::Launch>(&step))
    return l->grid.block > 0 ? "" : "a kernel that runs on the CPU";
  if (const auto* e = std::get_if<artifact::Extern>(&step)) {
    if (is_custom(e->op)) return e->op + ": an operator that is not PyTorch's own may act on the CPU";
    const c10::OperatorHandle op = find_operator(e->op);
    if (may_draw(op, *e)) return e->op + ": it draws random numbers";
    const bool counts = op.hasTag(at::Tag::data_dependent_output) || op.hasTag(at::Tag::dynamic_output_shape);
    if ((counts && !reads_at_integers(*e)) || !e->integers.empty())
      return e->op + ": the size of its result is only known on the GPU";
    return same_memory(a, step, device) ? "" : e->op + ": it uses tensors outside of the GPU";
  }
  if (const auto* c = std::get_if<artifact::Call>(&step)) {
    if (!same_memory(a, step, device)) return "a repeated region that uses tensors outside of the GPU";
    const artifact::Artifact& entry = a.entries[static_cast<size_t>(c->entry)];
    for (const artifact::Step& s : entry.steps) {
      std::string why = why_direct(entry, s, device);
      if (!why.empty()) return why;
    }
    return entry.mutated.empty() ? "" : "a repeated region that writes its inputs";
  }
  if (std::holds_alternative<artifact::Assert>(step)) return "a check that runs on the CPU";
  return "a copy to an input";
}

GraphPlan plan_graphs(const artifact::Artifact& a, int count, const Resolved& sizes, Device device,
                      const GraphFacts& facts) {
  GraphPlan plan;
  plan.direct.resize(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    const auto refused = facts.refused.find(i);
    plan.direct[i] = refused != facts.refused.end() ? refused->second : why_direct(a, a.steps[i], device);
  }
  std::vector<bool> shown(a.buffers.size(), false);
  for (const artifact::Output& o : a.outputs)
    if (o.kind == artifact::OutputKind::Fresh && o.view.buffer >= 0) shown[o.view.buffer] = true;
  const bool gives = plan.gives_memory = a.outputs_recur && facts.recur;
  const std::vector<bool> returned = gives ? std::vector<bool>(a.buffers.size(), false) : shown;  // by a copy
  const auto is_kernel = [&](int i) { return std::holds_alternative<artifact::Launch>(a.steps[i]); };
  // A large result that is copied out costs more than the launch of its call, if no graph is split for it.
  plan.last_calls = count;
  for (int i = count - 1; i >= 0 && !is_kernel(i); --i) {
    if (!plan.direct[i].empty()) continue;
    int64_t most = 0;
    artifact::for_each_use(a.steps[i], [&](int b, uint8_t access, bool) {
      if (access & artifact::kWrites && returned[b]) most = std::max(most, bytes_of(sizes.buffers[b]));
    });
    if (most <= kCopiedOut) break;
    plan.direct[i] = fmt::format("a result of {} KiB at the end", most >> 10);
    const auto* const call = std::get_if<artifact::Extern>(&a.steps[i]);
    if (plan.last_calls == i + 1 && call && call->results.size() == 1 && find_direct_call(call->op))
      plan.last_calls = i;
  }

  for (bool changed = true; changed;) {
    changed = false;
    // Buffers whose memory differs at every run.
    std::vector<bool> moves(a.buffers.size(), false);
    for (int b : facts.changing) moves[b] = true;
    for (int i = 0; i < count; ++i) {
      if (plan.direct[i].empty()) continue;
      artifact::for_each_use(a.steps[i], [&](int b, uint8_t access, bool) {
        const Role role = a.buffers[b].role;
        if (access & artifact::kWrites && (role == Role::Output || role == Role::Returned)) moves[b] = true;
      });
    }
    for (int i = 0; i < count; ++i) {
      if (!plan.direct[i].empty() || is_kernel(i)) continue;
      artifact::for_each_use(a.steps[i], [&](int b, uint8_t, bool) {
        if (!moves[b] || !plan.direct[i].empty()) return;
        plan.direct[i] = "memory that is another at every call";
        changed = true;
      });
    }
    plan.graphs.clear();
    for (int i = 0; i < count; ++i) {
      if (!plan.direct[i].empty()) continue;
      if (i > 0 && plan.direct[i - 1].empty() && !plan.graphs.empty()) {
        plan.graphs.back().end = i + 1;
      } else {
        plan.graphs.push_back({i, i + 1});
      }
    }
    for (const GraphPlan::Range& g : plan.graphs) {
      if (g.end - g.begin >= kFewestSteps) continue;
      for (int i = g.begin; i < g.end; ++i) plan.direct[i] = "alone between others that run directly";
      changed = true;
    }
  }

  plan.addresses.assign(a.buffers.size(), Address::Any);
  for (const GraphPlan::Range& g : plan.graphs) {
    for (int i = g.begin; i < g.end; ++i) {
      if (is_kernel(i)) continue;
      artifact::for_each_use(a.steps[i], [&](int b, uint8_t, bool) {
        const Role role = a.buffers[b].role;
        if (role == Role::Input || role == Role::Prepacked) plan.addresses[b] = Address::Fixed;
        if (role == Role::Output || role == Role::Returned)
          plan.addresses[b] = gives && shown[b] ? Address::Given : Address::Own;
      });
    }
  }
  for (size_t b = 0; b < a.buffers.size(); ++b)
    if (plan.addresses[b] == Address::Given) plan.given.push_back(static_cast<int>(b));
  int64_t copied = 0, steps = 0;
  for (size_t b = 0; b < a.buffers.size(); ++b)
    if (returned[b] && plan.addresses[b] == Address::Own) copied += bytes_of(sizes.buffers[b]);
  for (const GraphPlan::Range& g : plan.graphs) steps += g.end - g.begin;
  if (plan.graphs.empty()) {
    plan.why_none = count < kFewestSteps ? "it has one step" : plan.direct[0];
  } else if (copied > steps * kCopiedPerStep) {
    plan.graphs.clear();
    plan.why_none = fmt::format("{} MiB of results would be copied out of graphs of {} steps", copied >> 20, steps);
  }
  return plan;
}

}  // namespace vesta::runtime
