// Other schedules of a CPU's kernels (schedule/alternatives.h): each is legal and gives the same results.
#include <set>

#include "codegen_run.h"
#include "graph/graph.h"
#include "schedule/alternatives.h"
#include "schedule/plan.h"

namespace vesta::codegen::testing {
namespace {

std::shared_ptr<const loops::Kernel> kernel_of(const std::string& graph) {
  schedule::Options options;
  options.target = host_target();
  const schedule::Plan plan = schedule::make_plan(*graph::parse(graph), options);
  const auto* const step = plan.steps.size() == 1 ? std::get_if<schedule::KernelStep>(&plan.steps[0]) : nullptr;
  return step ? step->kernel : nullptr;
}

std::string product(const char* type, int64_t rows, int64_t columns, int64_t inner) {
  return fmt::format(R"(
input %0 : {0}[{1}, {3}] = argument "x"
input %1 : {0}[{2}, {3}] = argument "w"
%2 : {0}[{1}, {2}] = aten::linear(%0, %1, none)
%3 : {0}[{1}, {2}] = aten::relu(%2)
output %3
)",
                     type, rows, columns, inner);
}

// Whether kernels for this machine compute products.
bool has_products() { return host_target().vector_bytes >= 32 && host_target().fma; }

void expect_same_results(const loops::Kernel& kernel, int64_t rows, int64_t columns, int64_t inner) {
  std::vector<Array> arrays;
  for (const loops::KernelBuffer& b : kernel.buffers) {
    const bool is_row = arrays.empty();
    const int64_t count = b.written ? rows * columns : (is_row ? rows : columns) * inner;
    arrays.push_back(random_array(b.dtype, count, static_cast<unsigned>(arrays.size())));
  }
  expect_same(kernel, arrays, {}, 2, 16.0 * static_cast<double>(inner) * 0x1p-24);
}

TEST(Alternatives, OfProductsHaveOtherTiles) {
  const int64_t rows = 37, columns = 100, inner = 70;
  for (const char* type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    const auto own = kernel_of(product(type, rows, columns, inner));
    ASSERT_EQ(own != nullptr, has_products());
    if (!own) continue;
    const auto others = schedule::alternatives(*own, host_target());
    const bool matrices = own->registers.depth > 0;  // there are two tiles of them
    EXPECT_GT(others.size(), matrices ? 2u : 4u);
    EXPECT_LE(others.size(), 12u);
    std::set<std::string> texts = {loops::print(*own)};
    std::set<int64_t> tiles;
    for (const auto& k : others) {
      EXPECT_TRUE(texts.insert(loops::print(*k)).second) << "twice:\n" << loops::print(*k);
      EXPECT_EQ(k->registers.pairs, own->registers.pairs);
      EXPECT_EQ(k->registers.depth, own->registers.depth);
      tiles.insert(k->registers.rows * 1000 + k->registers.columns);
      expect_same_results(*k, rows, columns, inner);
    }
    EXPECT_GE(tiles.size(), matrices ? 2u : 3u);
  }
}

TEST(Alternatives, OfOtherKernelsHaveShorterVectors) {
  const auto own = kernel_of(R"(
input %0 : f32[64, 300] = argument "x"
%1 : f32[64, 1] = aten::sum.dim_IntList(%0, [1], true)
%2 : f32[64, 300] = aten::div.Tensor(%0, %1)
output %2
)");
  ASSERT_TRUE(own);
  const auto others = schedule::alternatives(*own, host_target());
  ASSERT_EQ(others.size(), own->lanes > 4 ? 1u : 0u);
  for (const auto& k : others) {
    EXPECT_EQ(2 * k->lanes, own->lanes);
    expect_same(*k, {random_array(DType::F32, 64 * 300, 1), make_array(DType::F32, 64 * 300)}, {}, 4, 1e-4);
  }
}

// A tile has a panel's columns, so panels decide them.
TEST(Alternatives, OfPanelsKeepTheirColumns) {
  const int64_t panel = 2 * host_lanes();
  const auto own = kernel_of(fmt::format(R"(
input %0 : f32[64, 96] = argument "x"
input %1 : f32[4, 96, {0}] = parameter "panels"
%2 : f32[64, {1}] = vesta::packed_linear(%0, %1, none)
output %2
)",
                                         panel, 4 * panel));
  ASSERT_EQ(own != nullptr, has_products());
  if (!own) return;
  ASSERT_FALSE(own->registers.packs_columns);
  for (const auto& k : schedule::alternatives(*own, host_target())) {
    EXPECT_EQ(k->registers.columns, panel);
    EXPECT_FALSE(k->registers.packs_columns);
  }
}

}  // namespace
}  // namespace vesta::codegen::testing
