// Kernels that serve products of several sizes (schedule/share_kernels.h), against the interpreter and against the
// kernels that they replace.
#include <set>

#include "codegen_run.h"
#include "graph/graph.h"
#include "schedule/plan.h"
#include "schedule/share_kernels.h"

namespace vesta::codegen::testing {
namespace {

using schedule::KernelStep;

struct Layer {
  int64_t rows, columns, inner;
};

// Layers beside each other; the weights lie in panels.
std::string linears(const std::vector<Layer>& layers, int64_t panel) {
  std::string inputs, nodes, outputs;
  int id = 0;
  for (const Layer& l : layers)
    inputs += fmt::format(
        "input %{} : f32[{}, {}] = argument \"x\"\ninput %{} : f32[{}, {}, {}] = parameter \"w\"\n"
        "input %{} : f32[{}] = parameter \"b\"\n",
        id, l.rows, l.inner, id + 1, (l.columns + panel - 1) / panel, l.inner, panel, id + 2, l.columns),
        id += 3;
  for (size_t i = 0; i < layers.size(); ++i, id += 2) {
    const Layer& l = layers[i];
    nodes += fmt::format("%{} : f32[{}, {}] = vesta::packed_linear(%{}, %{}, %{}, {})\n", id, l.rows, l.columns, 3 * i,
                         3 * i + 1, 3 * i + 2, l.columns);
    nodes += fmt::format("%{} : f32[{}, {}] = aten::relu(%{})\n", id + 1, l.rows, l.columns, id);
    outputs += fmt::format("output %{}\n", id + 1);
  }
  return inputs + nodes + outputs;
}

// Convolutions of 3 x 3 pixels: of `width` pixels a side, `channels` to `columns`, with a stride.
struct Window {
  int64_t width, channels, columns, stride;
};

std::string windows(const std::vector<Window>& layers, int64_t panel) {
  std::string inputs, nodes, outputs;
  int id = 0;
  for (const Window& w : layers)
    inputs += fmt::format(
        "input %{} : f32[1, {}, {}, {}] = argument \"x\"\ninput %{} : f32[{}, 3, 3, {}, {}] = parameter \"w\"\n", id,
        w.width, w.width, w.channels, id + 1, w.columns / panel, w.channels, panel),
        id += 2;
  for (size_t i = 0; i < layers.size(); ++i, id += 4) {
    const auto [n, c, columns, s] = layers[i];
    const int64_t m = (n - 3) / s + 1;
    nodes += fmt::format("%{} : f32[1, {}, {}, {}, 3]{{{}, {}, {}, 1, {}}} = aten::unfold(%{}, 1, 3, {})\n", id, m, n,
                         c, n * n * c, s * n * c, c, n * c, 2 * i, s);
    nodes += fmt::format("%{} : f32[1, {}, {}, {}, 3, 3]{{{}, {}, {}, 1, {}, {}}} = aten::unfold(%{}, 2, 3, {})\n",
                         id + 1, m, m, c, n * n * c, s * n * c, s * c, n * c, c, id, s);
    nodes += fmt::format(
        "%{} : f32[1, {}, {}, 3, 3, {}]{{{}, {}, {}, {}, {}, 1}} = aten::permute(%{}, [0, 1, 2, 4, 5, 3])\n", id + 2, m,
        m, c, n * n * c, s * n * c, s * c, n * c, c, id + 1);
    nodes += fmt::format("%{} : f32[1, {}, {}, {}] = vesta::packed_linear(%{}, %{}, none)\n", id + 3, m, m, columns,
                         id + 2, 2 * i + 1);
    outputs += fmt::format("output %{}\n", id + 3);
  }
  return inputs + nodes + outputs;
}

std::vector<const KernelStep*> kernels_of(const schedule::Plan& plan) {
  std::vector<const KernelStep*> kernels;
  for (const schedule::Step& s : plan.steps)
    if (const auto* k = std::get_if<KernelStep>(&s)) kernels.push_back(k);
  return kernels;
}

// Each kernel of the plan, before and after it is shared, gives what the interpreter gives. Returns how many kernels
// there are then.
size_t expect_shared(const std::string& text) {
  const auto g = graph::parse(text);
  graph::verify(*g);
  schedule::Options options;
  options.target = host_target();
  options.target.threads = 2;
  const schedule::Plan apart = make_plan(*g, options);
  schedule::Plan plan = make_plan(*g, options);
  share_kernels(plan);
  const auto before = kernels_of(apart), after = kernels_of(plan);
  std::set<std::string> texts;
  for (size_t i = 0; i < after.size(); ++i) {
    const KernelStep& k = *after[i];
    texts.insert(k.text);
    EXPECT_EQ(k.text, loops::print(*k.kernel));
    EXPECT_GT(before[i]->kernel->registers.rows, 0);
    std::vector<int64_t> sizes;
    for (const Expr e : k.sizes) sizes.push_back(e.constant());
    const auto value_of = [&](Expr s) {
      return sizes[static_cast<size_t>(std::find(k.kernel->sizes.begin(), k.kernel->sizes.end(), s) -
                                       k.kernel->sizes.begin())];
    };
    EXPECT_EQ(evaluate(loops::work_items(*k.kernel), value_of), before[i]->items.constant());
    EXPECT_EQ(evaluate(loops::scratch_bytes(*k.kernel), value_of), k.scratch.constant());
    std::vector<Array> arrays;
    unsigned seed = 1;
    for (const schedule::KernelArg& a : k.args)
      arrays.push_back(
          random_array(DType::F32, graph::numel(plan.buffers[static_cast<size_t>(a.buffer)].type).constant(), seed++));
    const double error = 16.0 * static_cast<double>(hint(before[i]->kernel->ranges.back().extent) * 3) * 0x1p-24;
    expect_same(*k.kernel, arrays, sizes, 8, error);
    // The sums have the same order, so they have the same bits.
    auto own = arrays;
    run_jit(*k.kernel, arrays, sizes);
    run_jit(*before[i]->kernel, own, {});
    for (size_t b = 0; b < arrays.size(); ++b) EXPECT_EQ(arrays[b].bytes, own[b].bytes) << k.text;
  }
  return texts.size();
}

bool has_tiles() { return host_target().fma && host_target().vector_bytes >= 32; }

TEST(SharedKernels, LayersOfSeveralSizes) {
  if (!has_tiles()) GTEST_SKIP() << "this machine computes no products";
  const int64_t panel = host_lanes() * 2;
  // With one slice and with several; rows that fill tiles and rows that do not; columns that fill panels or not.
  EXPECT_EQ(expect_shared(linears({{28, 3 * panel, 130}, {56, 2 * panel, 200}, {21, 4 * panel, 250}}, panel)), 1u);
  EXPECT_EQ(expect_shared(linears({{28, 3 * panel, 700}, {21, 2 * panel, 1100}, {7, 4 * panel, 1024}}, panel)), 1u);
  EXPECT_EQ(
      expect_shared(linears({{28, 3 * panel - 1, 130}, {27, 2 * panel - 3, 200}, {7, 4 * panel - 5, 250}}, panel)), 1u);
}

TEST(SharedKernels, KernelsOfAnotherForm) {
  if (!has_tiles()) GTEST_SKIP() << "this machine computes no products";
  const int64_t panel = host_lanes() * 2;
  // Few inner elements need no memory for sums; many are in several slices.
  EXPECT_EQ(expect_shared(linears({{28, panel, 32}, {28, 2 * panel, 48}, {28, panel, 250}, {28, panel, 900}}, panel)),
            4u);
  // A kernel that no other resembles keeps its sizes.
  EXPECT_EQ(expect_shared(linears({{28, panel, 300}}, panel)), 1u);
}

TEST(SharedKernels, WindowsOfSeveralSizes) {
  if (!has_tiles()) GTEST_SKIP() << "this machine computes no products";
  const int64_t panel = host_lanes() * 2;
  EXPECT_EQ(expect_shared(windows({{9, 32, 2 * panel, 1}, {9, 48, 4 * panel, 1}, {11, 96, 2 * panel, 2}}, panel)), 1u);
}

}  // namespace
}  // namespace vesta::codegen::testing
