// The graph's own operations, the verifier's rules, and speed at the size of large models.
#include <gtest/gtest.h>

#include <chrono>

#include "graph/graph.h"
#include "graph/passes/pass.h"
#include "graph/text.h"
#include "vesta/error.h"

namespace vesta::graph {
namespace {

TensorType f32(std::vector<Expr> sizes) { return {DType::F32, sizes, contiguous_strides(sizes), Device{}}; }

void add_output(Graph& g, Value* v) {
  Output o;
  o.value = v;
  g.outputs.push_back(o);
}

TEST(GraphText, EveryArgumentIsWrittenWhereItIsAskedFor) {
  const auto g = graph::parse(R"(input %0 : f32[4] = argument "x"
%1 : f32[4] = aten::add.Tensor(%0, %0)
output %1
)");
  EXPECT_EQ(graph::print(*g).find("alpha"), std::string::npos);
  const std::string all = graph::print_every_argument(*g);
  EXPECT_NE(all.find("aten::add.Tensor(%0, %0, alpha=1)"), std::string::npos) << all;
  EXPECT_EQ(graph::print(*graph::parse(all)), graph::print(*g));
}

TEST(Graph, KeepsUseLists) {
  Graph g;
  Value* x = g.add_input(f32({2, 3}), InputKind::Argument, "x");
  Builder b(g);
  Value* e = b("aten::exp", {x});
  Value* m = b("aten::mul.Tensor", {e, e});
  add_output(g, m);
  verify(g);
  EXPECT_EQ(e->users.size(), 2u);
  EXPECT_TRUE(g.is_used(m));
  g.replace_uses(e, x);
  EXPECT_EQ(e->users.size(), 0u);
  EXPECT_EQ(x->users.size(), 3u);
  g.erase(e->producer);
  verify(g);
  EXPECT_EQ(g.node_count(), 1u);
  EXPECT_THROW(g.erase(m->producer), InternalError);
  g.replace_uses(m, x);
  EXPECT_EQ(g.outputs[0].value, x);
}

TEST(Graph, InsertsBeforeANode) {
  Graph g;
  Value* x = g.add_input(f32({2}), InputKind::Argument, "x");
  Builder end(g);
  Node* last = end.node("aten::exp", {x});
  Builder front(g, last);
  Node* first = front.node("aten::neg", {x});
  EXPECT_EQ(g.first(), first);
  EXPECT_EQ(first->next, last);
  verify(g);
}

TEST(Builder, FillsDefaultsAndInfersTypes) {
  Graph g;
  const Expr s0 = g.context->size_symbol("s0", 7);
  Value* x = g.add_input(f32({s0, 3}), InputKind::Argument, "x");
  g.symbols.push_back({s0, 0, 0});
  Builder b(g);
  const Node* n = b.node("aten::add.Tensor", {x, x});
  ASSERT_EQ(n->args().size(), 3u);
  EXPECT_EQ(n->args()[2], Arg(Expr(1)));
  EXPECT_EQ(n->results[0]->type, x->type);
  const Node* k = b.node("aten::sum.dim_IntList", {x, IntList{1}}, {{"keepdim", true}});
  EXPECT_EQ(k->results[0]->type.sizes, (std::vector<Expr>{s0, 1}));
  EXPECT_THROW(b.node("aten::add.Tensor", {x}), InternalError);
  EXPECT_THROW(b.node("aten::exp", {x}, {{"nonsense", true}}), InternalError);
  verify(g);
}

TEST(GraphGuards, RecordOnlyWhatIsNotProvable) {
  Graph g;
  const Expr s0 = g.context->size_symbol("s0", 7), s1 = g.context->size_symbol("s1", 7);
  GraphGuards guards(g);
  EXPECT_FALSE(guards.equal(s0, 1));
  EXPECT_TRUE(guards.equal(s0 + 1, s0 + 1));
  EXPECT_TRUE(guards.less(s0, s0 + 1));
  EXPECT_TRUE(g.guards.empty());
  EXPECT_TRUE(guards.equal(s0, s1));
  EXPECT_TRUE(guards.equal(s0, s1));
  EXPECT_EQ(g.guards.size(), 1u);
  EXPECT_EQ(guards.specialize(s0), 7);
  EXPECT_EQ(g.guards.size(), 2u);
}

TEST(Types, Contiguity) {
  const TensorType t{DType::F32, {2, 1, 3}, {3, 99, 1}, Device{}};
  EXPECT_TRUE(is_contiguous(t));
  EXPECT_TRUE(is_non_overlapping_and_dense(t));
  const TensorType transposed{DType::F32, {2, 3}, {1, 2}, Device{}};
  EXPECT_FALSE(is_contiguous(transposed));
  EXPECT_TRUE(is_non_overlapping_and_dense(transposed));
  const TensorType expanded{DType::F32, {2, 3}, {0, 1}, Device{}};
  EXPECT_FALSE(is_non_overlapping_and_dense(expanded));
  const TensorType empty{DType::F32, {2, 0}, {7, 7}, Device{}};
  EXPECT_TRUE(is_contiguous(empty));
}

void expect_broken(const char* text, const char* rule) {
  declare_op("test::write_(Tensor(a!) x) -> Tensor(a!)");
  const auto g = parse(text);
  try {
    verify(*g);
    ADD_FAILURE() << "verified: " << text;
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find(rule), std::string::npos) << e.what();
  }
}

TEST(Verify, NamesNodeAndRule) {
  expect_broken("input %0 : f32[2] = argument \"x\"\nprepacked %1 : f32[2] = aten::exp(%0)\noutput %1\n",
                "%1 aten::exp: it is a prepacked constant");
  expect_broken("input %0 : f32[2] = argument \"x\"\n%1 : f32[2] = aten::exp(3)\noutput %1\n",
                "argument 'self' has a value of a wrong kind");
  expect_broken("input %0 : f32[2] = argument \"x\"\n%1 : f32[2]{1, 2} = aten::exp(%0)\noutput %1\n",
                "1 sizes and 2 strides");
  expect_broken("input %0 : f32[2] = argument \"x\"\noutput view of output 0 : f32[2] offset 0\n",
                "views no fresh output");
  expect_broken("input %0 : f32[2] = argument \"x\"\ninput %1 : f32[3] = argument \"y\"\nmutate input 0 = %1\n",
                "of another type");
  expect_broken("symbol s0 = 4, at least 2\ninput %0 : f32[s0] = argument \"x\"\noutput %0\n", "s0 has no source");
  expect_broken(
      "symbol s0 = 4, at least 2\nsource s0 = size 0 of input 0\ninput %0 : f32[s0] = argument \"x\"\nguard s0 == "
      "5\noutput %0\n",
      "does not hold");
  expect_broken("input %0 : f32[2] = argument \"x\"\n%1 : f32[2], %2 : f32[2] = aten::exp(%0)\noutput %1\n",
                "it has 2 results");
}

TEST(Verify, FindsUsesBeforeTheirDefinition) {
  const auto g = parse(
      "input %0 : f32[2] = argument \"x\"\n%1 : f32[2] = aten::exp(%0)\n%2 : f32[2] = aten::neg(%1)\noutput %2\n");
  g->set_arg(g->first(), 0, g->last()->results[0]);
  EXPECT_THROW(verify(*g), InternalError);
}

// 3000 nodes: all passes together must stay in milliseconds. The bound is an alarm for quadratic work, not a benchmark.
TEST(PassTable, IsLinearInTheGraph) {
  Graph g;
  Value* x = g.add_input(f32({16, 64}), InputKind::Argument, "x");
  std::vector<Value*> weights;
  for (int i = 0; i < 100; ++i) weights.push_back(g.add_input(f32({64, 64}), InputKind::Parameter, "w"));
  Builder b(g);
  Value* v = x;
  for (int i = 0; i < 500; ++i) {
    Value* h = b("aten::linear", {v, weights[i % 100]});
    h = b("aten::view", {h, IntList{4, 4, 64}});
    h = b("aten::view", {h, IntList{16, 64}});
    h = b("aten::gelu", {h});
    h = b("aten::mul.Scalar", {h, Expr(1)});
    v = b("aten::add.Tensor", {h, v});
  }
  add_output(g, v);
  const Options options;
  const auto begin = std::chrono::steady_clock::now();
  run_passes(g, {.options = options}, false);
  const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  verify(g);
  EXPECT_EQ(g.node_count(), 1500u);
  EXPECT_LT(ms, 400);
  RecordProperty("ms", std::to_string(ms));
}

}  // namespace
}  // namespace vesta::graph
