// Elements that come in pairs: stacks of two, and complex numbers as two real ones.
#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using graph::Builder;
using graph::Graph;
using graph::Value;
using graph::ValueList;

Value* input(Graph& g, std::vector<Expr> sizes) {
  graph::TensorType type;
  type.strides = graph::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return g.add_input(type, graph::InputKind::Argument, "x");
}

void output(Graph& g, Value* v) {
  graph::Output o;
  o.value = v;
  g.outputs.push_back(o);
}

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

std::string only_kernel(const schedule::Plan& plan) {
  EXPECT_EQ(kernels(plan), 1);
  EXPECT_EQ(plan.steps.size(), 1u);
  return std::get<schedule::KernelStep>(plan.steps.at(0)).text;
}

TEST(Pairs, AStackOfTwoHasNoChoiceInItsLoop) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {6, 70});
  Value* y = input(g, {6, 70});
  Value* one = b("aten::unsqueeze", {b("aten::exp", {x}), Expr(-1)});
  Value* other = b("aten::unsqueeze", {b("aten::mul.Tensor", {x, y}), Expr(-1)});
  Value* parts = b("aten::cat", {ValueList{one, other}, Expr(-1)});
  output(g, b("aten::add.Scalar", {parts, Expr(1)}));
  const std::string text = only_kernel(check_plan(g));
  EXPECT_EQ(count(text, "select"), 0) << text;
  EXPECT_EQ(count(text, "store"), 2) << text;
  EXPECT_EQ(count(text, "exp"), 1) << text;
}

TEST(Pairs, ARotationByComplexNumbersIsRealArithmetic) {
  Graph g;
  Builder b(g);
  Value* x = b("aten::view_as_complex", {input(g, {3, 5, 16, 2})});
  Value* y = b("aten::view_as_complex", {input(g, {16, 2})});
  Value* z = b("aten::view_as_real", {b("aten::mul.Tensor", {x, y})});
  output(g, b("aten::mul.Scalar", {b("aten::view", {z, graph::IntList{3, 5, 32}}), 2.0}));
  const std::string text = only_kernel(check_plan(g));
  EXPECT_EQ(count(text, "select"), 0) << text;
  EXPECT_EQ(count(text, "load"), 4) << text;
}

TEST(Pairs, PartsOfAComplexSumAreSummed) {
  Graph g;
  Builder b(g);
  Value* x = b("aten::view_as_complex", {input(g, {9, 40, 2})});
  Value* square = b("aten::view_as_real", {b("aten::mul.Tensor", {x, x})});
  output(g, b("aten::sum.dim_IntList", {square, graph::IntList{1}}));
  check_plan(g);
}

}  // namespace
