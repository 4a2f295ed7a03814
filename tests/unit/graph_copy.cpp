// A copy of a graph is equal to it and shares nothing with it.
#include "graph/copy.h"

#include <gtest/gtest.h>

#include "graph/text.h"

namespace vesta::graph {
namespace {

std::unique_ptr<Graph> sample() {
  auto g = std::make_unique<Graph>();
  const Expr s = g->context->size_symbol("s0", 8, 3);
  g->symbols.push_back({s, 0, 0, false});
  Value* x = g->add_input({DType::F32, {s, 4}, {4, 1}, {}}, InputKind::Argument, "x");
  Value* w = g->add_input({DType::F32, {4}, {1}, {}}, InputKind::Parameter, "w");
  g->inputs[1].alignment = 64;
  Builder b(*g);
  b.source = "model.py:3";
  Value* sum = b("aten::add.Tensor", {x, w});
  Value* both = b("aten::cat", {ValueList{sum, x}});
  g->mutations.push_back({0, sum});
  Output o;
  o.value = both;
  g->outputs.push_back(o);
  g->guards.push_back({2 * s, Relation::Less, 100, "model.py:4"});
  return g;
}

TEST(GraphCopy, IsEqual) {
  const auto g = sample();
  const auto c = copy(*g);
  verify(*c);
  EXPECT_EQ(print_every_argument(*c), print_every_argument(*g));
  EXPECT_EQ(c->inputs[1].alignment, 64);
  EXPECT_EQ(c->first()->source, "model.py:3");
}

TEST(GraphCopy, SharesNothing) {
  auto g = sample();
  const auto c = copy(*g);
  const std::string before = print(*c);
  EXPECT_NE(c->context, g->context);
  for (const Expr e : {c->symbols[0].symbol, c->first()->results[0]->type.sizes[0], c->guards[0].left})
    EXPECT_EQ(e.node()->context, c->context.get());
  g->mutations.clear();
  g->replace_uses(g->first()->results[0], g->inputs[0].value);
  g->erase(g->first());
  EXPECT_EQ(print(*c), before);
  g.reset();
  verify(*c);
  EXPECT_EQ(print(*c), before);
}

}  // namespace
}  // namespace vesta::graph
