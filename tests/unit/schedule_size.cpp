// How large one kernel may become: compiling takes time in proportion to its instructions.
#include "schedule_run.h"

namespace {

using namespace vesta;
using namespace vesta::testing;
using graph::Builder;
using graph::Graph;
using graph::IntList;
using graph::TensorType;
using graph::Value;

constexpr size_t kMostInstructions = 800;
constexpr int kMostCost = 640;

Value* input(Graph& g, std::vector<Expr> sizes) {
  TensorType type;
  type.strides = graph::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return g.add_input(type, graph::InputKind::Argument, "x");
}

void output(Graph& g, Value* v) {
  graph::Output o;
  o.value = v;
  g.outputs.push_back(o);
}

struct Sizes {
  size_t kernels = 0;
  size_t instructions = 0;  // of the largest kernel
  int cost = 0;             // of the most expensive kernel, in units of Prim costs
};

Sizes measure(const schedule::Plan& plan) {
  Sizes found;
  for (const schedule::Step& step : plan.steps) {
    const auto* k = std::get_if<schedule::KernelStep>(&step);
    if (!k) continue;
    ++found.kernels;
    found.instructions = std::max(found.instructions, k->kernel->instrs.size());
    int work = 0;
    for (const loops::Instr& i : k->kernel->instrs) work += i.kind == loops::InstrKind::Compute ? cost(i.prim) : 0;
    found.cost = std::max(found.cost, work);
  }
  return found;
}

schedule::Plan pooled(std::vector<Expr> sizes, int64_t kernel) {
  Graph g;
  Builder b(g);
  const IntList size(3, Expr(kernel)), stride(3, Expr(2)), zero(3, Expr(0)), one(3, Expr(1));
  const std::vector<Value*> both =
      b.node("aten::max_pool3d_with_indices", {input(g, std::move(sizes)), size, stride, zero, one, true})->results;
  output(g, both[0]);
  output(g, both[1]);
  return schedule::make_plan(g, {});
}

TEST(KernelSize, ShortLoopsOverWindowsAreNotWrittenOut) {
  const Sizes found = measure(pooled({2, 2, 6, 6, 5}, 3));
  EXPECT_EQ(found.kernels, 1u);
  EXPECT_LE(found.instructions, kMostInstructions / 2);
}

TEST(KernelSize, WindowsOfManyElementsAreKernelsOrCalls) {
  for (int64_t kernel : {2, 3, 4}) EXPECT_LE(measure(pooled({1, 2, 9, 8, 7}, kernel)).instructions, kMostInstructions);
}

TEST(KernelSize, LongChainsBecomeSeveralKernels) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {1000});
  for (int i = 0; i < 60; ++i)
    x = b("aten::add.Tensor", {b("aten::sin", {b("aten::mul.Scalar", {x, 1.1})}), b("aten::erf", {x})});
  output(g, x);
  const Sizes found = measure(check_plan(g));
  EXPECT_GE(found.kernels, 3u);
  EXPECT_LE(found.kernels, 6u);
  EXPECT_LE(found.cost, 2 * kMostCost);
  EXPECT_LE(found.instructions, kMostInstructions);
}

TEST(KernelSize, OrdinaryChainsStayOneKernel) {
  Graph g;
  Builder b(g);
  Value* x = input(g, {1000});
  for (int i = 0; i < 12; ++i) x = b("aten::tanh", {b("aten::mul.Scalar", {x, 1.1})});
  output(g, x);
  EXPECT_EQ(measure(check_plan(g)).kernels, 1u);
}

}  // namespace
