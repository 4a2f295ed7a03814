// part_of_strides: the slices and indices that replace an as_strided have its offset, sizes and strides.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "graph/graph.h"
#include "graph/rules/slices.h"

namespace {

using namespace vesta;
using Numbers = std::vector<int64_t>;

graph::TensorType tensor(const Numbers& sizes, const Numbers& strides) {
  return {DType::F32, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, {}};
}

std::optional<graph::TensorPart> part(const graph::TensorType& x, const Numbers& sizes, const Numbers& strides,
                                      int64_t offset) {
  return graph::part_of_strides(x, {sizes.begin(), sizes.end()}, {strides.begin(), strides.end()}, offset);
}

// The offset, sizes and strides of the part, as the views that it stands for have them.
void expect_shows(const graph::TensorType& x, const graph::TensorPart& p, const Numbers& sizes, const Numbers& strides,
                  int64_t offset) {
  ASSERT_EQ(p.dims.size(), x.dim());
  ASSERT_EQ(p.order.size(), sizes.size());
  Numbers shown_sizes, shown_strides;
  int64_t begin = 0;
  for (size_t d = 0; d < p.dims.size(); ++d) {
    const auto& dim = p.dims[d];
    begin += dim.start * x.strides[d].constant();
    EXPECT_LT(dim.start + (dim.length.value_or(1) - 1) * dim.step, x.sizes[d].constant());
    if (!dim.length) continue;
    shown_sizes.push_back(*dim.length);
    shown_strides.push_back(dim.step * x.strides[d].constant());
  }
  EXPECT_EQ(begin, offset);
  for (size_t k = 0; k < p.order.size(); ++k) {
    EXPECT_EQ(shown_sizes.at(static_cast<size_t>(p.order[k])), sizes[k]);
    EXPECT_EQ(shown_strides.at(static_cast<size_t>(p.order[k])), strides[k]);
  }
}

TEST(TensorParts, SelectSliceAndPermute) {
  const graph::TensorType x = tensor({2, 16, 64}, {1024, 1, 16});
  const auto selected = part(x, {2, 64}, {1024, 16}, 15);
  ASSERT_TRUE(selected);
  EXPECT_EQ(selected->dims[1].start, 15);
  EXPECT_FALSE(selected->dims[1].length);
  const auto turned = part(x, {16, 2}, {1, 1024}, 48);
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->order, (Numbers{1, 0}));
  EXPECT_EQ(turned->dims[2].start, 3);
  const auto every_third = part(x, {2, 5, 21}, {1024, 3, 48}, 16);
  ASSERT_TRUE(every_third);
  EXPECT_EQ(every_third->dims[1].step, 3);
  EXPECT_EQ(every_third->dims[2].step, 3);
}

TEST(TensorParts, OthersAreNone) {
  ExprContext context;
  const graph::TensorType x = tensor({4, 6}, {6, 1});
  EXPECT_FALSE(part(x, {4}, {7}, 0));         // a diagonal
  EXPECT_FALSE(part(x, {3, 3}, {1, 1}, 0));   // windows that overlap
  EXPECT_FALSE(part(x, {8}, {1}, 0));         // elements of two rows
  EXPECT_FALSE(part(x, {3}, {0}, 0));         // stride 0: one element three times
  EXPECT_FALSE(part(x, {0, 6}, {6, 1}, 0));   // no element
  EXPECT_FALSE(part(x, {2}, {1}, 24));        // beyond the end
  EXPECT_FALSE(part(x, {1, 6}, {99, 1}, 0));  // a dimension that x does not have
  EXPECT_FALSE(graph::part_of_strides(x, {context.size_symbol("s0", 4)}, {Expr(6)}, 0));
}

TEST(TensorParts, SizesForStrides) {
  const auto sizes = [](const Numbers& of, const Numbers& strides) {
    return graph::sizes_for_strides(tensor(of, {1}), {strides.begin(), strides.end()});
  };
  EXPECT_EQ(sizes({24}, {6, 1}), (Numbers{4, 6}));
  EXPECT_EQ(sizes({24}, {2, 12}), (Numbers{2, 6, 2}));
  EXPECT_EQ(sizes({24}, {24}), (Numbers{24}));
  EXPECT_EQ(sizes({24}, {}), (Numbers{24}));
  EXPECT_EQ(sizes({24}, {6, 4}), std::nullopt);
  EXPECT_EQ(sizes({24}, {7}), std::nullopt);
  EXPECT_EQ(sizes({24}, {0, 1}), std::nullopt);
  EXPECT_EQ(graph::sizes_for_strides(tensor({4, 6}, {1, 4}), {Expr(6)}), std::nullopt);
}

TEST(TensorParts, RandomStridesShowTheirElements) {
  std::mt19937 random(1);
  const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)); };
  int found = 0;
  for (int i = 0; i < 20'000; ++i) {
    Numbers sizes(static_cast<size_t>(upto(3))), strides(sizes.size()), order(sizes.size());
    for (int64_t& n : sizes) n = 1 + upto(4);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    int64_t elements = 1;
    for (const int64_t d : order)
      strides[static_cast<size_t>(d)] = std::exchange(elements, elements * sizes[static_cast<size_t>(d)]);
    const graph::TensorType x = tensor(sizes, strides);
    // Most dimensions take a size and a stride of x, so that many samples are parts.
    Numbers given_sizes, given_strides;
    for (int64_t k = upto(3); k > 0; --k) {
      const bool own = !sizes.empty() && random() % 4 != 0;
      const size_t d = own ? random() % sizes.size() : 0;
      given_sizes.push_back(own ? 1 + upto(sizes[d] - 1) : 1 + upto(2));
      given_strides.push_back(own ? strides[d] * (1 + upto(1)) : upto(8));
    }
    const int64_t offset = upto(elements);
    const auto p = part(x, given_sizes, given_strides, offset);
    if (!p) continue;
    ++found;
    expect_shows(x, *p, given_sizes, given_strides, offset);
    if (HasFailure()) FAIL() << "sample " << i;
  }
  EXPECT_GT(found, 2'000);
}

}  // namespace
