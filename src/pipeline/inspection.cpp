#include "pipeline/inspection.h"

#include <algorithm>
#include <set>

#include "graph/part.h"
#include "pipeline/assemble.h"

namespace vesta::pipeline {
namespace {

// The ids of the values that each kernel computes. A reduction that is divided among threads has two kernels.
std::vector<std::pair<std::string, std::set<uint32_t>>> values_of_kernels(const schedule::Plan& plan) {
  std::vector<std::pair<std::string, std::set<uint32_t>>> out;
  for (const auto* steps : {&plan.prepacked, &plan.steps}) {
    for (const schedule::Step& s : *steps) {
      const auto* k = std::get_if<schedule::KernelStep>(&s);
      if (!k || k->values.empty()) continue;
      const auto shares = [&](const auto& known) {
        return std::ranges::any_of(k->values, [&](uint32_t v) { return known.second.contains(v); });
      };
      auto it = std::ranges::find_if(out, shares);
      if (it == out.end()) it = out.insert(it, {kernel_name(k->ops), {}});
      it->second.insert(k->values.begin(), k->values.end());
    }
  }
  return out;
}

}  // namespace

Inspection inspection_of(graph::Graph& graph, const schedule::Plan& plan, const Labels& labels) {
  auto kernels = values_of_kernels(plan);
  // The parser numbers the values of a text in this way.
  std::vector<graph::Value*> by_id(graph.value_count());
  const auto know = [&](graph::Value* v) {
    if (v) by_id.at(v->id) = v;
  };
  for (const graph::Input& i : graph.inputs) know(i.value);
  graph.for_each_node([&](graph::Node* n) { std::ranges::for_each(n->results, know); });
  graph.renumber();
  for (auto& [name, values] : kernels) {
    std::set<uint32_t> renumbered;
    for (const uint32_t v : values) renumbered.insert(by_id.at(v)->id);
    values = std::move(renumbered);
  }
  Inspection out{labels.restore(graph::print(graph)), labels.restore(schedule::print(plan)), {}};
  for (const auto& [name, values] : kernels) {
    graph::Part part = graph::part_of(graph, values);
    if (part.outputs.empty()) continue;
    out.kernels.push_back(
        {name, labels.restore(graph::print(*part.graph)), std::move(part.inputs), std::move(part.outputs)});
  }
  return out;
}

}  // namespace vesta::pipeline
