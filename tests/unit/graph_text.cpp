#include <gtest/gtest.h>

#include "graph/graph.h"
#include "vesta/error.h"

namespace vesta::graph {
namespace {

void declare_test_ops() {
  for (const char* schema : {
           "test::one(Tensor x) -> Tensor",
           "test::two(Tensor x) -> (Tensor a, Tensor b)",
           "test::all(Tensor x, Tensor? y, Tensor[] list, Tensor?[] maybe, int i, int[] ints, float f, float[] floats, "
           "bool b, "
           "bool[2] bools, Scalar s, Scalar?[] scalars, str t, *, ScalarType? dtype=None, Device? device=None, "
           "MemoryFormat? format=None, Layout? layout=None, int n=3) -> Tensor",
           "test::none(Tensor x) -> ()",
       })
    declare_op(schema);
}

// parse and print give back the text, and the graph is valid.
void round_trip(const std::string& text) {
  declare_test_ops();
  const auto g = parse(text);
  verify(*g);
  EXPECT_EQ(print(*g), text);
}

TEST(GraphText, EveryKindOfArgument) {
  round_trip(R"(symbol s0 = 8, at least 2
symbol s1 = 3, at least 0
source s0 = size 0 of input 0
source s1 = integer 1
input %0 : f32[s0, 4] = argument "x"
input %1 : bf16[4]{2}@cuda:0 = parameter "a \"b\"\\"
guard s0 >= 4 @ "model.py:3"
guard s1 != 2
%2 : f32[s0, 4]{1, s0} = test::all(%0, %1, [%0, %1], [none, %0], 2*s0, [1, s0], -0.5, [1.0, inf], true, [true, false], complex(1.0, -2.0), [0.1], "a\x0ab", dtype=dtype.bf16, device=device.cuda:1, format=format.channels_last, layout=layout.strided, n=4) @ "f.py:1"
%3 : f32[] = test::all(%0, none, value[], value[], 0, int[], nan, float[], false, bool[], 1e+30, float[], "")
)");
}

TEST(GraphText, EveryKindOfResultAndOutput) {
  round_trip(R"(input %0 : f32[2, 3] = argument "x"
input %1 : f32[2, 3] = parameter "w"
prepacked %2 : f32[2, 3] = test::one(%1)
prepacked %3 : f32[2, 3] = test::one(%2)
%4 : f32[2, 3], _ = test::two(%3)
test::none(%4)
mutate input 0 = %4
output %4
output input 0
output input 0 as %4
output view of input 0 : f32[3] offset 3
output view of output 0 : f32[2, 3] at 2 as %4
output integer 7
output none
output hidden %2
)");
}

TEST(GraphText, SkipsCommentsAndBlankLines) {
  declare_test_ops();
  const auto g =
      parse("# a graph\n\ninput %7 : f32[2] = argument \"x\"  # the input\n  %9 : f32[2] = test::one(%7)\noutput %9\n");
  EXPECT_EQ(print(*g), "input %0 : f32[2] = argument \"x\"\n%1 : f32[2] = test::one(%0)\noutput %1\n");
}

void expect_error(const std::string& text, const std::string& where) {
  declare_test_ops();
  try {
    parse(text);
    ADD_FAILURE() << "no error for " << text;
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(where), std::string::npos) << e.what();
  }
}

TEST(GraphText, ErrorsNameLineAndColumn) {
  expect_error("input %0 : f32[2] = argument \"x\"\n%1 : f32[2] = test::one(%5)\n", "line 2, column");
  expect_error("%1 : f32[2] = no::such()\n", "no operator 'no::such'");
  expect_error("input %0 : f32[2] = argument \"x\"\ninput %0 : f32[2] = argument \"x\"\n", "defined twice");
  expect_error("input %0 : f32[2] = argument \"x\"\n%1 : f32[2] = test::one()\n", "needs its argument 'x'");
  expect_error("input %0 : f32[2] = argument \"x\"\n%1 : f32[2] = test::one(%0, %0)\n", "too many");
  expect_error("input %0 : f32[q] = argument \"x\"\n", "line 1");
}

}  // namespace
}  // namespace vesta::graph
