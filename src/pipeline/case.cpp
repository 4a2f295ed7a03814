#include "pipeline/case.h"

#include <algorithm>

#include "base/check.h"

namespace vesta::pipeline {
namespace {

std::vector<int64_t> hints(const std::vector<Expr>& list) {
  std::vector<int64_t> out;
  for (const Expr e : list) out.push_back(hint(e));
  return out;
}

}  // namespace

Case make_case(const graph::Graph& graph, const Options& options, const Traced& traced, const Target& target) {
  Case c;
  c.graph = graph::print(graph);
  c.options = options;
  c.inference = traced.inference;
  c.deterministic = traced.deterministic;
  c.target = plan_text(target);
  for (const graph::Input& i : graph.inputs) {
    const graph::TensorType& t = i.value->type;
    c.inputs.push_back({i.name, t.dtype, hints(t.sizes), hints(t.strides), t.device, i.alignment, {}, -1, {}});
  }
  for (const auto& group : traced.facts.same)
    for (size_t i = 1; i < group.size(); ++i) c.inputs.at(static_cast<size_t>(group[i])).same_as = group[0];
  for (const auto& [input, offset] : traced.facts.offsets) c.inputs.at(static_cast<size_t>(input)).offset = offset;
  for (const auto& [input, bits] : traced.facts.conj_neg) c.inputs.at(static_cast<size_t>(input)).conj_neg = bits;
  for (const graph::SymbolSource& s : graph.symbols) {
    if (s.input >= 0) continue;
    const auto at = static_cast<size_t>(s.dim);
    if (c.integers.size() <= at) c.integers.resize(at + 1);
    c.integers[at] = hint(s.symbol);
  }
  return c;
}

std::unique_ptr<graph::Graph> graph_of(const Case& c) {
  std::unique_ptr<graph::Graph> graph = graph::parse(c.graph);
  VESTA_USER_CHECK(graph->inputs.size() == c.inputs.size(), "the graph of the case has {} inputs, its list has {}",
                   graph->inputs.size(), c.inputs.size());
  graph::verify(*graph);
  return graph;
}

Traced traced_of(const Case& c) {
  Traced out;
  out.inference = c.inference;
  out.deterministic = c.deterministic;
  std::vector<std::vector<int>> groups(c.inputs.size());
  for (int i = 0; i < static_cast<int>(c.inputs.size()); ++i) {
    const CaseInput& in = c.inputs[static_cast<size_t>(i)];
    if (in.offset) out.facts.offsets.emplace_back(i, *in.offset);
    if (in.conj_neg.any()) out.facts.conj_neg.emplace_back(i, in.conj_neg);
    if (in.same_as < 0) continue;
    VESTA_USER_CHECK(in.same_as < i, "input {} of the case is the same as input {}, which does not come earlier", i,
                     in.same_as);
    std::vector<int>& group = groups[static_cast<size_t>(in.same_as)];
    if (group.empty()) group.push_back(in.same_as);
    group.push_back(i);
  }
  std::ranges::copy_if(groups, std::back_inserter(out.facts.same), [](const auto& g) { return !g.empty(); });
  return out;
}

}  // namespace vesta::pipeline
