// Models of many layers, of which a few are planned: the plan is the one of all layers.
#include "schedule/repeat_layers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/passes/pass.h"
#include "graph/text.h"
#include "schedule/register_tiles.h"

namespace {

using namespace vesta;
using graph::Arg;
using graph::Graph;
using graph::InputKind;
using graph::IntList;
using graph::None;
using graph::Value;

constexpr int64_t kWidth = 64;

// Layers of a norm, a gated product and a residual sum, between an embedding and a product with the embedding's table.
struct Model {
  int layers = 20;
  Expr rows = 8;
  bool has_caches = false;    // each layer writes into an input of its own
  bool gives_states = false;  // the result of each layer is an output
  bool shares_turn = false;   // layers compute the same of an input that all read
  bool skips = false;         // the second half adds what the first half computed, last first
  int different = -1;         // a layer of another epsilon
  int read_after = -1;        // the layer that is read after the last one
  bool is_symbolic = false;
  bool takes_turns = false;  // every second layer has one operator more

  std::shared_ptr<Graph> graph = std::make_shared<Graph>();

  Value* input(std::vector<Expr> sizes, InputKind kind = InputKind::Parameter, DType dtype = DType::F32) {
    std::vector<Expr> strides = graph::contiguous_strides(sizes);
    return graph->add_input({dtype, std::move(sizes), std::move(strides), {}}, kind, "x");
  }
  Value* call(std::string_view op, std::vector<Arg> args) {
    graph::Builder b(*graph);
    b.source = "model.py:" + std::string(op);
    return b(op, std::move(args));
  }

  Value* layer(Value* x, Value* turn, int n) {
    Value* const scale = input({kWidth});
    Value* const wide = input({4 * kWidth, kWidth});
    Value* const narrow = input({kWidth, 2 * kWidth});
    Value* h = call("aten::mul.Tensor", {x, x});
    h = call("aten::mean.dim", {h, IntList{-1}, true, None{}});
    h = call("aten::rsqrt", {call("aten::add.Scalar", {h, n == different ? 1e-3 : 1e-5, Expr(1)})});
    h = call("aten::mul.Tensor", {call("aten::mul.Tensor", {x, h}), scale});
    if (shares_turn) h = call("aten::mul.Tensor", {h, call("aten::cos", {turn})});
    h = call("aten::linear", {h, wide, None{}});
    if (takes_turns && n % 2 == 1) h = call("aten::tanh", {h});
    Value* const a = call("aten::slice.Tensor", {h, Expr(1), Expr(0), Expr(2 * kWidth), Expr(1)});
    Value* const b = call("aten::slice.Tensor", {h, Expr(1), Expr(2 * kWidth), Expr(4 * kWidth), Expr(1)});
    h = call("aten::linear", {call("aten::mul.Tensor", {call("aten::silu", {a}), b}), narrow, None{}});
    if (has_caches) {
      Value* const cache = input({32, kWidth}, InputKind::Argument);
      const int index = static_cast<int>(graph->inputs.size()) - 1;
      Value* const written =
          call("aten::cat",
               {graph::ValueList{h, call("aten::slice.Tensor", {cache, Expr(0), rows, Expr(32), Expr(1)})}, Expr(0)});
      graph->mutations.push_back({index, written});
      h = call("aten::add.Tensor", {h, call("aten::mean.dim", {written, IntList{0}, false, None{}}), Expr(1)});
    }
    return call("aten::add.Tensor", {x, h, Expr(1)});
  }

  std::shared_ptr<Graph> build() {
    graph = std::make_shared<Graph>();
    if (is_symbolic) rows = graph->context->size_symbol("s0", 8, 2);
    Value* const ids = input({rows}, InputKind::Argument, DType::I64);
    if (is_symbolic) graph->symbols.push_back({rows, 0, 0});
    Value* const table = input({100, kWidth});
    Value* const turn = input({kWidth});
    Value* x = call("aten::embedding", {table, ids, Expr(-1), false, false});
    std::vector<Value*> states;
    for (int n = 0; n < layers; ++n) {
      states.push_back(x);
      if (skips && n >= layers / 2)
        x = call("aten::add.Tensor", {x, states[static_cast<size_t>(layers - 1 - n)], Expr(1)});
      x = layer(x, turn, n);
    }
    if (read_after >= 0) x = call("aten::add.Tensor", {x, states.at(static_cast<size_t>(read_after)), Expr(1)});
    graph->outputs.push_back({.value = call("aten::linear", {call("aten::tanh", {x}), table, None{}})});
    if (gives_states)
      for (Value* s : states) graph->outputs.push_back({.value = s});
    graph->renumber();
    graph::verify(*graph);
    return graph;
  }
};

std::optional<graph::Layers> layers_of(const Graph& g) {
  return graph::find_layers(g, [](const std::string& a, const std::string& b) { return a == b; });
}

schedule::Plan plan_of(Graph& g, const Target& target) {
  const Options options;
  schedule::Options o;
  o.target = target;
  graph::PassContext context{.options = options};
  context.computes_product = [&](DType element, int64_t rows, int64_t columns, int64_t inner) {
    return schedule::computes_in_registers(element, rows, columns, inner, o.target);
  };
  context.panel_of = [&](DType element, int64_t rows, int64_t columns, int64_t inner, int64_t apart) {
    return schedule::panel_of(element, rows, columns, inner, apart, o.target);
  };
  graph::run_passes(g, context, true);
  return schedule::make_plan(g, o);
}

void expect_the_same_plan(const Model& model, const Target& target) {
  const std::shared_ptr<Graph> g = Model(model).build(), every_layer = graph::parse(graph::print(*g));
  const auto layers = layers_of(*g);
  ASSERT_TRUE(layers);
  EXPECT_GE(layers->count, (model.takes_turns ? model.layers / 2 : model.layers) - 1);
  graph::verify(*layers->few);
  EXPECT_LT(layers->few->node_count(), g->node_count() * 3 / 4);
  const schedule::Plan few = plan_of(*layers->few, target);
  const auto repeated = schedule::repeat_layers(few, *g, *layers);
  ASSERT_TRUE(repeated) << schedule::print(few);
  EXPECT_EQ(schedule::print(*repeated), schedule::print(plan_of(*every_layer, target)));
}

// This machine's kernels read weights that are laid out once.
void expect_the_same_plan(const Model& model) {
  expect_the_same_plan(model, {});
  expect_the_same_plan(model, host_target());
}

void expect_no_layers(Model model) { EXPECT_FALSE(layers_of(*model.build())); }

TEST(RepeatLayers, GivesThePlanOfAllLayers) { expect_the_same_plan({}); }
TEST(RepeatLayers, ManyLayers) { expect_the_same_plan({.layers = 126}); }
TEST(RepeatLayers, SymbolicSizes) { expect_the_same_plan({.is_symbolic = true}); }
TEST(RepeatLayers, LayersThatWriteTheirCaches) { expect_the_same_plan({.has_caches = true}); }
TEST(RepeatLayers, ResultsOfAllLayersAreOutputs) { expect_the_same_plan({.gives_states = true}); }
TEST(RepeatLayers, CachesAndOutputs) { expect_the_same_plan({.has_caches = true, .gives_states = true}); }
TEST(RepeatLayers, EqualPartsOfLayersAreComputedOnce) { expect_the_same_plan({.shares_turn = true}); }
TEST(RepeatLayers, TheLastLayerIsReadLater) { expect_the_same_plan({.read_after = 19}); }

TEST(RepeatLayers, LayersThatTakeTurns) {
  Model model{.layers = 24, .takes_turns = true};
  const auto found = layers_of(*model.build());
  ASSERT_TRUE(found);
  EXPECT_GE(found->count, 11);
  EXPECT_LE(found->count, 12);
  expect_the_same_plan(model);
}

TEST(RepeatLayers, FewLayersAreNone) { expect_no_layers({.layers = 7}); }
TEST(RepeatLayers, AnEarlyLayerIsReadLater) { expect_no_layers({.read_after = 9}); }
TEST(RepeatLayers, LayersThatAreReadInReverse) { expect_no_layers({.skips = true}); }

TEST(RepeatLayers, ALayerThatDiffersEndsThem) {
  const auto found = layers_of(*Model{.layers = 40, .different = 12}.build());
  ASSERT_TRUE(found);
  EXPECT_GE(found->count, 26);
  EXPECT_LE(found->count, 27);
  EXPECT_FALSE(layers_of(*Model{.layers = 14, .different = 7}.build()));
}

TEST(RepeatLayers, OtherLinesAreOtherLayers) {
  const auto g = Model().build();
  int n = 0;
  g->for_each_node([&](graph::Node* node) { node->source = std::to_string(n++); });
  EXPECT_FALSE(layers_of(*g));
}

}  // namespace
