// choose_saved() against an exact solver, which tries every set of nodes that the backward may compute again.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <random>

#include "joint_graph.h"

namespace {

using namespace vesta;
using namespace vesta::graph;
using namespace vesta::graph::testing_joint;

// Random forward nodes over matrices, and a backward that multiplies a tangent by some of them.
class RandomJoint {
 public:
  explicit RandomJoint(uint32_t seed) : random_(seed) {}

  Joint run() {
    const int nodes = 3 + below(12);
    return run(nodes, 3 + below(6));
  }

  Joint run(int nodes, int readers) {
    Joint j{std::make_unique<Graph>()};
    graph_ = j.graph.get();
    builder_ = std::make_unique<Builder>(*graph_);
    side_ = int64_t{64} << 2 * below(3);
    for (const char* name : {"x", "y"}) values_.push_back(add_input(InputKind::Argument, name));
    values_.push_back(add_input(InputKind::Parameter, "w"));
    j.first_tangent = values_.size();
    Value* grad = add_input(InputKind::Argument, "tangent");
    for (int i = 0; i < nodes; ++i) add_forward();
    graph_->outputs.push_back({.value = values_.back()});
    if (below(3) == 0) graph_->outputs.push_back({.value = any()});
    if (below(4) == 0) graph_->mutations.push_back({.input = 0, .value = call("aten::add.Tensor", {whole(), whole()})});
    j.first_gradient = graph_->outputs.size();
    for (int i = 0; i < readers; ++i)
      grad = below(4) == 0 ? call("aten::mm", {grad, whole()}) : call("aten::mul.Tensor", {grad, any()});
    graph_->outputs.push_back({.value = grad});
    verify(*graph_);
    return j;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  Value* any() {  // mostly a recent one
    const int count = static_cast<int>(values_.size());
    return values_[static_cast<size_t>(count - 1 - (below(2) ? below(count) : below(std::min(count, 4))))];
  }
  Value* whole() {  // a matrix of floats
    for (;;) {
      Value* const v = any();
      if (v->type.dtype == DType::F32 && v->type.sizes == std::vector<Expr>{side_, side_}) return v;
    }
  }
  Value* add_input(InputKind kind, const char* name) {
    const std::vector<Expr> sizes = {side_, side_};
    return graph_->add_input({DType::F32, sizes, contiguous_strides(sizes), {}}, kind, name);
  }
  Value* call(const char* op, std::vector<Arg> args) { return (*builder_)(op, std::move(args)); }
  void add_forward() {
    const auto all = [&](Node* n) {
      for (Value* v : n->results) values_.push_back(v);
    };
    switch (below(18)) {
      case 0: return all(builder_->node("aten::mm", {whole(), whole()}));
      case 1: return all(builder_->node("aten::t", {whole()}));
      case 2: return all(builder_->node("aten::sum.dim_IntList", {whole(), IntList{1}, true}));
      case 3: return all(builder_->node("aten::max.dim", {whole(), Expr(1)}));
      case 4:
        if (below(2)) return all(builder_->node("aten::native_dropout", {whole(), 0.5, true}));
        return all(builder_->node("aten::sin", {whole()}));
      case 5: return all(builder_->node("aten::_softmax", {whole(), Expr(1), false}));
      case 6: return all(builder_->node("aten::_to_copy", {whole()}, {{"dtype", DType::BF16}}));
      case 7: return all(builder_->node("aten::erf", {whole()}));
      case 8: return all(builder_->node("aten::exp", {whole()}));
      case 9: return all(builder_->node("aten::select.int", {whole(), Expr(0), Expr(1)}));
      case 10: return all(builder_->node("aten::neg", {whole()}));
      default: return all(builder_->node("aten::mul.Tensor", {whole(), any()}));
    }
  }

  std::mt19937 random_;
  int64_t side_ = 0;
  Graph* graph_ = nullptr;
  std::unique_ptr<Builder> builder_;
  std::vector<Value*> values_;
};

// The rules of graph/saved_values.h over values of the graph itself: bytes and time of a backward for a given set of
// nodes that it may compute again.
class Exact {
 public:
  struct Cost {
    int64_t bytes = 0;
    double time = 0;            // as bytes
    bool reads_others = false;  // tensors that are alive and that eager does not save
  };

  explicit Exact(const Joint& j) : j_(j), speeds_(machine()) {
    for (size_t i = j.first_tangent; i < j.graph->inputs.size(); ++i) after_tangent_.insert(j.graph->inputs[i].value);
    j.graph->for_each_node([&](const Node* n) {
      bool after = false;
      n->for_each_input([&](const Value* v) { after |= after_tangent_.contains(v); });
      for (const Value* v : n->results)
        if (after) after_tangent_.insert(v);
      if (after) {
        backward_.push_back(n);
      } else if (n->op->family() != Family::View) {
        forward_.push_back(n);
      }
    });
    for (size_t i = 0; i < j.first_gradient; ++i) {
      need(j.graph->outputs[i].value);
      alive_.insert(base(j.graph->outputs[i].value));
    }
    for (const Mutation& m : j.graph->mutations) need(m.value);
    for (const Node* n : forward_)
      if (is_random(*n)) need(n->results[0]);
    // What eager saves: it computes nothing again, and parts of formulas in the backward.
    uint32_t formulas = 0;
    for (size_t i = 0; i < forward_.size(); ++i)
      if (!is_program(*forward_[i])) formulas |= 1u << i;
    read_by_eager_ = needed_by(formulas);
    int64_t working_set = 0;
    for (const Value* v : read_by_eager_) working_set += memory_bytes(v->type);
    bytes_per_ns_ = speeds_.bytes_per_ns(working_set);
  }

  size_t forward_count() const { return forward_.size(); }
  const std::vector<const Node*>& forward() const { return forward_; }

  bool is_random(const Node& n) const { return n.op->has(kRandom); }
  bool is_library(const Node& n) const { return !work_of(n).fuses; }
  bool is_program(const Node& n) const {
    return std::any_of(n.results.begin(), n.results.end(), [&](const Value* v) { return program_.contains(v); });
  }

  // Bit i: the backward may compute forward()[i] again.
  Cost cost(uint32_t again) const {
    Cost out;
    std::set<const Node*> computed;
    const std::set<const Value*> saved = needed_by(again, &computed);
    for (const Value* v : saved) {
      const int64_t bytes = bytes_of(v);
      out.bytes += bytes;
      out.time += static_cast<double>(bytes);
      if (bytes > 0 || read_by_eager_.contains(v)) continue;
      out.time += load(v);
      out.reads_others = true;
    }
    for (const Node* n : computed)
      if (is_program(*n)) out.time += time_of(*n);
    return out;
  }

  int64_t eager_bytes() const {
    int64_t bytes = 0;
    for (const Value* v : read_by_eager_) bytes += bytes_of(v);
    return bytes;
  }

  // The least time with at most `most_bytes`. `limited`: it may compute library calls again, and read tensors that are
  // alive and that eager does not save.
  std::optional<Cost> best(int64_t most_bytes, bool limited) const {
    std::optional<Cost> best;
    uint32_t allowed = 0;
    for (size_t i = 0; i < forward_.size(); ++i)
      if (!is_random(*forward_[i]) && (limited || !is_library(*forward_[i]) || !is_program(*forward_[i])))
        allowed |= 1u << i;
    for (uint32_t set = allowed;; set = (set - 1) & allowed) {
      const Cost c = cost(set);
      if (c.bytes <= most_bytes && (limited || !c.reads_others) && (!best || c.time < best->time)) best = c;
      if (set == 0) return best;
    }
  }

 private:
  static const Value* base(const Value* v) {
    while (v->producer && v->producer->op->family() == Family::View) v = v->producer->input(0);
    return v;
  }
  void need(const Value* v) {
    if (after_tangent_.contains(v) || !program_.insert(v).second || !v->producer) return;
    for (const Value* r : v->producer->results)
      if (r) program_.insert(r);
    v->producer->for_each_input([&](const Value* x) { need(x); });
  }
  int64_t bytes_of(const Value* v) const {
    const auto& inputs = j_.graph->inputs;
    for (const Mutation& m : j_.graph->mutations)
      if (inputs[static_cast<size_t>(m.input)].value == v) return memory_bytes(v->type);
    return !v->producer || alive_.contains(v) ? 0 : memory_bytes(v->type);
  }
  // Of what forward nodes read of memory that is alive.
  double load(const Value* v) const {
    int64_t most = 0;
    for (const Node* n : forward_)
      n->for_each_input([&](const Value* x) {
        if (base(x) == v) most = std::max(most, memory_bytes(x->type));
      });
    return static_cast<double>(most);
  }
  double time_of(const Node& n) const {
    double bytes = speeds_.nanoseconds(work_of(n)) * bytes_per_ns_;
    for (const Value* r : n.results) {
      const bool read_by_call = std::any_of(backward_.begin(), backward_.end(), [&](const Node* b) {
        bool reads = false;
        b->for_each_input([&](const Value* x) { reads |= base(x) == r; });
        return reads && is_library(*b);
      });
      if (read_by_call) bytes += 2.0 * static_cast<double>(memory_bytes(r->type));
    }
    return bytes;
  }
  // Bases that the backward reads from memory, if it may compute the nodes of the set.
  std::set<const Value*> needed_by(uint32_t again, std::set<const Node*>* computed = nullptr) const {
    std::set<const Value*> wanted;
    for (const Node* n : backward_)
      n->for_each_input([&](const Value* v) {
        if (!after_tangent_.contains(v)) wanted.insert(base(v));
      });
    for (size_t i = forward_.size(); i-- > 0;) {
      const Node& n = *forward_[i];
      if (!(again >> i & 1)) continue;
      bool any = false;
      for (const Value* r : n.results) any |= wanted.erase(r) > 0;
      if (!any) continue;
      if (computed) computed->insert(&n);
      n.for_each_input([&](const Value* x) { wanted.insert(base(x)); });
    }
    return wanted;
  }

  const Joint& j_;
  const Speeds speeds_;
  std::vector<const Node*> forward_, backward_;
  std::set<const Value*> after_tangent_, program_, alive_, read_by_eager_;
  double bytes_per_ns_ = 1;
};

// What was chosen, by the solver's own count: the nodes that the backward runs follow from what is saved.
Exact::Cost cost_of(const Exact& exact, const Joint& j, const SavedValues& chosen) {
  const std::set<const Node*> nodes = nodes_of_backward(j, chosen.saved);
  uint32_t again = 0;
  for (size_t i = 0; i < exact.forward_count(); ++i)
    if (nodes.contains(exact.forward()[i])) again |= 1u << i;
  return exact.cost(again);
}

TEST(SavedValuesExact, CostAtMostATenthMoreThanTheOptimum) {
  int below_eager = 0, limits = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Joint j = RandomJoint(seed).run();
    const Exact exact(j);
    ASSERT_LE(exact.forward_count(), 16u);

    const SavedValues chosen = choose(j);
    const Exact::Cost cost = cost_of(exact, j, chosen);
    const auto optimum = exact.best(exact.eager_bytes(), false);
    ASSERT_TRUE(optimum);
    EXPECT_EQ(chosen.eager_bytes, exact.eager_bytes());
    EXPECT_EQ(chosen.bytes, cost.bytes);
    EXPECT_LE(chosen.bytes, chosen.eager_bytes);
    EXPECT_LE(chosen.load_us + chosen.recompute_us, chosen.eager_us * 1.000001);
    EXPECT_LE(cost.time, 1.1 * optimum->time + 1);
    below_eager += chosen.bytes < chosen.eager_bytes;
    for (const Node* n : chosen.recomputed) EXPECT_FALSE(exact.is_random(*n) || exact.is_library(*n)) << n->op->name;
    for (const Node* n : nodes_of_backward(j, chosen.saved)) EXPECT_FALSE(exact.is_random(*n)) << n->op->name;

    for (const double fraction : {0.5, 0.25}) {
      const SavedValues limited = choose(j, {.fraction = fraction});
      const Exact::Cost c = cost_of(exact, j, limited);
      EXPECT_EQ(limited.bytes, c.bytes);
      for (const Node* n : limited.recomputed) EXPECT_FALSE(exact.is_random(*n));
      const auto best = exact.best(*limited.limit, true);
      EXPECT_EQ(limited.reached(), best.has_value());
      if (!best || chosen.bytes <= *limited.limit) continue;
      ++limits;
      EXPECT_LE(c.time, 1.1 * best->time + 1);
    }
  }
  // The graphs are such that there is something to choose.
  EXPECT_GT(below_eager, 100);
  EXPECT_GT(limits, 400);
}

TEST(SavedValuesExact, ALargeGraphTakesMilliseconds) {
  const Joint j = RandomJoint(1).run(3400, 1700);
  EXPECT_GE(j.graph->node_count(), 5000u);
  expect_milliseconds(j, 50);
}

}  // namespace
