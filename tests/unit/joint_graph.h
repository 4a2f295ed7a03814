// Checks of what choose_saved() chooses, by walks of their own over the joint graph.
#pragma once

#include <gtest/gtest.h>

#include <ctime>
#include <iostream>
#include <set>

#include "base/target.h"
#include "graph/saved_values.h"
#include "graph/work.h"

namespace vesta::graph::testing_joint {

inline Target machine() {
  Target t;
  t.vector_bytes = 64;
  return t;
}

// A joint graph: of `inputs` the last are tangents, of `outputs` the last are gradients.
struct Joint {
  std::unique_ptr<Graph> graph;
  size_t first_tangent = 0, first_gradient = 0;
};

inline Joint joint(std::string_view text, size_t tangents, size_t gradients) {
  Joint j{parse(text)};
  verify(*j.graph);
  j.first_tangent = j.graph->inputs.size() - tangents;
  j.first_gradient = j.graph->outputs.size() - gradients;
  return j;
}

inline SavedValues choose(const Joint& j, const Limit& limit = {}, const RegionOf& region_of = {}) {
  return choose_saved(*j.graph, j.first_tangent, j.first_gradient, limit, machine(), region_of);
}

inline std::vector<uint32_t> ids(const std::vector<Value*>& values) {
  std::vector<uint32_t> out;
  for (const Value* v : values) out.push_back(v->id);
  return out;
}
inline std::vector<uint32_t> results(const std::vector<const Node*>& nodes) {
  std::vector<uint32_t> out;
  for (const Node* n : nodes) out.push_back(n->results[0]->id);
  return out;
}

// The nodes that compute the gradients from the saved values and the tangents alone. Fails if an input is missing.
inline std::set<const Node*> nodes_of_backward(const Joint& j, const std::vector<Value*>& saved) {
  std::set<const Value*> known(saved.begin(), saved.end());
  for (size_t i = j.first_tangent; i < j.graph->inputs.size(); ++i) known.insert(j.graph->inputs[i].value);
  std::vector<const Value*> work;
  for (size_t i = j.first_gradient; i < j.graph->outputs.size(); ++i)
    if (const Value* v = j.graph->outputs[i].value) work.push_back(v);
  std::set<const Node*> nodes;
  while (!work.empty()) {
    const Value* const v = work.back();
    work.pop_back();
    if (!known.insert(v).second) continue;
    if (!v->producer) {
      ADD_FAILURE() << "the backward reads the input %" << v->id << ", which is not saved\n" << print(*j.graph);
      continue;
    }
    if (nodes.insert(v->producer).second) v->producer->for_each_input([&](const Value* x) { work.push_back(x); });
  }
  return nodes;
}

// Measures the choice for some limits, each at its best of five, in milliseconds of this thread's CPU time. A
// sanitizer's time is not compared.
inline void expect_milliseconds(const Joint& j, double most) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec);
  };
  for (const double fraction : {1.0, 0.5, 0.25}) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const double begin = now();
      choose(j, {.fraction = fraction});
      best = std::min(best, now() - begin);
    }
    std::cout << j.graph->node_count() << " nodes, a limit of " << fraction << ": " << best << " ms\n";
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LE(best, most);
#endif
  }
}

}  // namespace vesta::graph::testing_joint
