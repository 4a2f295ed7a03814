// What transformer layers save, and how long the choice takes.
#include <fmt/format.h>

#include "joint_graph.h"

namespace {

using namespace vesta;
using namespace vesta::graph;
using namespace vesta::graph::testing_joint;

// Layers of attention and a perceptron with norms before them, with the backward that autograd writes for them.
class Layers {
 public:
  Layers(int layers, int64_t tokens, int64_t width, int64_t heads)
      : tokens_(tokens), width_(width), heads_(heads), layers_(static_cast<size_t>(layers)) {}

  Joint run() {
    j_.graph = std::make_unique<Graph>();
    Value* x = input({tokens_, width_}, InputKind::Argument);
    for (Layer& l : layers_) {
      l.norm1 = input({width_}), l.norm2 = input({width_});
      l.qkv = input({width_, 3 * width_}), l.out = input({width_, width_});
      l.up = input({width_, 4 * width_}), l.down = input({4 * width_, width_});
    }
    j_.first_tangent = j_.graph->inputs.size();
    Value* grad = input({tokens_, width_}, InputKind::Argument);
    for (Layer& l : layers_) x = forward(l, x);
    output(x);
    j_.first_gradient = 1;
    for (size_t i = layers_.size(); i-- > 0;) grad = backward(layers_[i], grad);
    output(grad);
    verify(*j_.graph);
    return std::move(j_);
  }

 private:
  struct Layer {
    Value *norm1, *norm2, *qkv, *out, *up, *down;
    Value *x, *normed1, *q, *k, *v, *attended, *joined, *sums, *middle, *normed2, *wide, *bent;
    Node *first, *second;
  };

  Value* input(std::vector<int64_t> sizes, InputKind kind = InputKind::Parameter) {
    const std::vector<Expr> e(sizes.begin(), sizes.end());
    return j_.graph->add_input({DType::F32, e, contiguous_strides(e), {}}, kind, "x");
  }
  void output(Value* v) { j_.graph->outputs.push_back({.value = v}); }
  Node* node(std::string_view op, std::vector<Arg> args) { return Builder(*j_.graph).node(op, std::move(args)); }
  Value* call(std::string_view op, std::vector<Arg> args) { return node(op, std::move(args))->results[0]; }
  Value* mm(Value* a, Value* b) { return call("aten::mm", {a, b}); }
  Value* t(Value* a) { return call("aten::t", {a}); }
  Value* add(Value* a, Value* b) { return call("aten::add.Tensor", {a, b}); }
  Value* dense(Value* a) { return call("aten::clone", {a, MemoryFormat::Contiguous}); }

  Node* norm(Value* x, Value* weight) {
    return node("aten::native_layer_norm", {x, IntList{width_}, weight, None{}, 1e-5});
  }
  Value* heads(Value* qkv, int part) {  // a view: [1, heads, tokens, size]
    Value* v = call("aten::slice.Tensor", {qkv, Expr(1), Expr(part * width_), Expr((part + 1) * width_), Expr(1)});
    v = call("aten::view", {v, IntList{1, tokens_, heads_, width_ / heads_}});
    return call("aten::transpose.int", {v, Expr(1), Expr(2)});
  }
  Value* joined(Value* heads) {
    return call("aten::view",
                {dense(call("aten::transpose.int", {heads, Expr(1), Expr(2)})), IntList{tokens_, width_}});
  }

  Value* forward(Layer& l, Value* x) {
    l.x = x;
    l.first = norm(x, l.norm1);
    l.normed1 = l.first->results[0];
    Value* const qkv = mm(l.normed1, l.qkv);
    l.q = heads(qkv, 0), l.k = heads(qkv, 1), l.v = heads(qkv, 2);
    Node* const attention = node("aten::_scaled_dot_product_flash_attention_for_cpu", {l.q, l.k, l.v, 0.0, true});
    l.attended = attention->results[0], l.sums = attention->results[1];
    l.joined = joined(l.attended);
    l.middle = add(x, mm(l.joined, l.out));
    l.second = norm(l.middle, l.norm2);
    l.normed2 = l.second->results[0];
    l.wide = mm(l.normed2, l.up);
    l.bent = call("aten::gelu", {l.wide, std::string("none")});
    return add(l.middle, mm(l.bent, l.down));
  }

  // Gradients of the operand and of the weight.
  Value* through_mm(Value* grad, Value* x, Value* w) {
    output(mm(t(x), grad));
    return mm(grad, t(w));
  }
  Value* through_norm(Value* grad, const Node* norm, Value* x, Value* weight) {
    Node* const n =
        node("aten::native_layer_norm_backward", {grad, x, IntList{width_}, norm->results[1], norm->results[2], weight,
                                                  None{}, std::vector<bool>{true, true, false}});
    output(n->results[1]);
    return n->results[0];
  }
  Value* backward(const Layer& l, Value* grad) {
    Value* g = through_mm(grad, l.bent, l.down);
    g = call("aten::gelu_backward", {g, l.wide, std::string("none")});
    g = through_mm(g, l.normed2, l.up);
    grad = add(grad, through_norm(g, l.second, l.middle, l.norm2));
    g = through_mm(grad, l.joined, l.out);
    g = call("aten::transpose.int",
             {call("aten::view", {g, IntList{1, tokens_, heads_, width_ / heads_}}), Expr(1), Expr(2)});
    Node* const n = node("aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                         {g, l.q, l.k, l.v, l.attended, l.sums, 0.0, true});
    ValueList parts;
    for (Value* v : n->results) parts.push_back(joined(v));
    g = through_mm(call("aten::cat", {parts, Expr(1)}), l.normed1, l.qkv);
    return add(grad, through_norm(g, l.first, l.x, l.norm1));
  }

  const int64_t tokens_, width_, heads_;
  std::vector<Layer> layers_;
  Joint j_;
};

// Of all nodes, each alone.
double microseconds(const Graph& g) {
  const Speeds speeds(machine());
  double ns = 0;
  g.for_each_node([&](const Node* n) {
    const Work w = work_of(*n);
    const double memory = static_cast<double>(w.bytes) / speeds.bytes_per_ns(w.bytes);
    ns += n->op->family() == Family::View ? 0 : std::max(speeds.nanoseconds(w), memory);
  });
  return ns / 1000;
}

TEST(SavedValuesLayers, ALimitTradesTimeForMemory) {
  const Joint j = Layers(12, 512, 768, 12).run();
  const double all = microseconds(*j.graph);
  double time = 0;
  for (const double fraction : {1.0, 0.5, 0.25, 0.1}) {
    const SavedValues c = choose(j, {.fraction = fraction});
    nodes_of_backward(j, c.saved);
    EXPECT_TRUE(c.reached());
    EXPECT_LE(static_cast<double>(c.bytes), fraction * static_cast<double>(c.eager_bytes));
    // As much as was allowed is saved, or nearly.
    EXPECT_GE(static_cast<double>(c.bytes), 0.9 * fraction * static_cast<double>(c.eager_bytes));
    const double now = c.load_us + c.recompute_us;
    EXPECT_GT(now, time);
    time = now;
    EXPECT_LE(now - c.eager_us, (1 - fraction) * 0.7 * all);  // with half of the bytes, 1.35 times the time
  }
}

TEST(SavedValuesLayers, AGraphOfFiveThousandNodesTakesMilliseconds) {
  const Joint j = Layers(90, 512, 768, 12).run();
  EXPECT_GE(j.graph->node_count(), 5000u);
  expect_milliseconds(j, 50);
}

TEST(SavedValuesLayers, SomeOfManyEqualLayersAreEnough) {
  const auto again_in = [](int layers) {
    const Joint j = Layers(layers, 512, 768, 12).run();
    const SavedValues half = choose(j, {.fraction = 0.5});
    EXPECT_TRUE(half.reached());
    EXPECT_GE(static_cast<double>(half.bytes), 0.49 * static_cast<double>(half.eager_bytes));
    return half.recompute_us / layers;
  };
  EXPECT_LE(again_in(120), 1.1 * again_in(12));
}

}  // namespace
