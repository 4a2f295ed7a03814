// The pass of wide products computes what the program computes.
#include <gtest/gtest.h>

#include "graph/passes/passes.h"
#include "trace_interpreter.h"

namespace vesta::trace::test {
namespace {

TEST(WideProducts, HaveTheProductsValues) {
  const std::string text = R"(
input %0 : f64[2, 5, 64] = argument "x"
input %1 : f64[32, 64] = parameter "q"
input %2 : f64[16, 64] = parameter "k"
input %3 : f64[32] = parameter "bq"
input %4 : f64[16] = parameter "bk"
%5 : f64[2, 5, 32] = aten::linear(%0, %1, %3)
%6 : f64[2, 5, 16] = aten::linear(%0, %2, %4)
%7 : f64[2, 5, 4, 4] = aten::view(%6, [2, 5, 4, 4])
output %5
output %7
)";
  at::manual_seed(0);
  const auto of = [](at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); };
  const std::vector<at::Tensor> inputs = {of({2, 5, 64}), of({32, 64}), of({16, 64}), of({32}), of({16})};
  const auto graph = graph::parse(text);
  const std::vector<c10::IValue> before = interpret(*graph, inputs, {});
  vesta::Options options;
  options.packed_weights = 1 << 20;
  ASSERT_TRUE(graph::write_wide_products(*graph, {.options = options}));
  graph::verify(*graph);
  const std::vector<c10::IValue> after = interpret(*graph, inputs, {});
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::allclose(before[i].toTensor(), after[i].toTensor())) << i;
    EXPECT_EQ(before[i].toTensor().strides(), after[i].toTensor().strides()) << i;
  }
}

}  // namespace
}  // namespace vesta::trace::test
