// Passes over the convolutions of a joint graph.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/joint.h"
#include "pass_text.h"

namespace vesta::graph {
namespace {

using testing_text::canonical;

using JointPass = bool (*)(Graph& graph, const PassContext& context, Joint& joint);

// A joint graph from text. Its backward pass begins at the first node that reads the last input.
struct Given {
  explicit Given(const std::string& text) : graph(parse(text)) {
    verify(*graph);
    const Value* const tangent = graph->inputs.back().value;
    for (Node* n = graph->first(); n && !joint.first_backward; n = n->next)
      n->for_each_input([&](const Value* v) { joint.first_backward = v == tangent ? n : joint.first_backward; });
  }
  std::unique_ptr<Graph> graph;
  Joint joint;
};

// The pass, then dead-code. `first`: the operator with which the backward pass begins then.
void expect_pass(JointPass pass, const std::string& before, const std::string& after, std::string_view first) {
  Given g(before);
  const Options options;
  EXPECT_TRUE(pass(*g.graph, {.options = options, .inference = false}, g.joint)) << before;
  verify(*g.graph);
  ASSERT_NE(g.joint.first_backward, nullptr);
  EXPECT_EQ(g.joint.first_backward->op->name, first);
  remove_dead_code(*g.graph, {.options = options});
  EXPECT_EQ(print(*parse(print(*g.graph))), canonical(after));
  Given limited(before);
  EXPECT_FALSE(pass(*limited.graph, {.options = options, .inference = false, .may_rewrite = [] { return false; }},
                    limited.joint));
  EXPECT_EQ(print(*limited.graph), print(*parse(before)));
}

void expect_unchanged(JointPass pass, const std::string& text, const Options& options = {},
                      DeviceType device = DeviceType::CPU) {
  Given g(text);
  EXPECT_FALSE(pass(*g.graph, {.options = options, .device = device, .inference = false}, g.joint)) << text;
  EXPECT_EQ(print(*g.graph), print(*parse(text)));
}

// ---- Convolutions of one pixel

const char* const kPointwise = R"(
input %0 : f32[2, 8, 16, 16] = argument "x"
input %1 : f32[4, 8, 1, 1] = argument "w"
input %2 : f32[4] = argument "b"
input %3 : f32[2, 4, 16, 16] = argument "tangent0"
%4 : f32[2, 4, 16, 16] = aten::convolution(%0, %1, %2, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
%5 : f32[2, 8, 16, 16], %6 : f32[4, 8, 1, 1], %7 : f32[4] = aten::convolution_backward(%3, %0, %1, [4], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, true])
output %4
output %5
output %6
output %7
)";

TEST(PointwiseConvolutions, AreProductsOfImages) {
  expect_pass(write_pointwise_convolutions, kPointwise, R"(
input %0 : f32[2, 8, 16, 16] = argument "x"
input %1 : f32[4, 8, 1, 1] = argument "w"
input %2 : f32[4] = argument "b"
input %3 : f32[2, 4, 16, 16] = argument "tangent0"
%4 : f32[4, 8] = aten::view(%1, [4, 8])
%5 : f32[2, 4, 8]{0, 8, 1} = aten::expand(%4, [2, 4, 8])
%6 : f32[2, 8, 256] = aten::view(%0, [2, 8, 256])
%7 : f32[2, 4, 256] = aten::bmm(%5, %6)
%8 : f32[2, 4, 16, 16] = aten::view(%7, [2, 4, 16, 16])
%9 : f32[4, 1, 1] = aten::view(%2, [4, 1, 1])
%10 : f32[2, 4, 16, 16] = aten::add.Tensor(%8, %9)
%11 : f32[2, 4, 256] = aten::view(%3, [2, 4, 256])
%12 : f32[4, 8] = aten::view(%1, [4, 8])
%13 : f32[8, 4]{1, 8} = aten::t(%12)
%14 : f32[2, 8, 4]{0, 1, 8} = aten::expand(%13, [2, 8, 4])
%15 : f32[2, 8, 256] = aten::bmm(%14, %11)
%16 : f32[2, 8, 16, 16] = aten::view(%15, [2, 8, 16, 16])
%22 : f32[2, 8, 256] = aten::view(%0, [2, 8, 256])
%17 : f32[2, 256, 8]{2048, 1, 256} = aten::transpose.int(%22, 1, 2)
%18 : f32[2, 4, 8] = aten::bmm(%11, %17)
%19 : f32[4, 8] = aten::sum.dim_IntList(%18, [0])
%20 : f32[4, 8, 1, 1] = aten::view(%19, [4, 8, 1, 1])
%21 : f32[4] = aten::sum.dim_IntList(%3, [0, 2, 3])
output %10
output %16
output %20
output %21
)",
              "aten::view");
}

// The forward and the backward pass read one copy of every second pixel. Between the gradients of these are zeros,
// which the library stores.
TEST(PointwiseConvolutions, ReadEverySecondPixel) {
  expect_pass(write_pointwise_convolutions, R"(
input %0 : f32[2, 8, 33, 32] = argument "x"
input %1 : f32[4, 8, 1, 1] = argument "w"
input %2 : f32[2, 4, 17, 16] = argument "tangent0"
%3 : f32[2, 4, 17, 16] = aten::convolution(%0, %1, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1)
%4 : f32[2, 8, 33, 32], %5 : f32[4, 8, 1, 1], _ = aten::convolution_backward(%2, %0, %1, [0], [2, 2], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false])
output %3
output %4
output %5
)",
              R"(
input %0 : f32[2, 8, 33, 32] = argument "x"
input %1 : f32[4, 8, 1, 1] = argument "w"
input %2 : f32[2, 4, 17, 16] = argument "tangent0"
%3 : f32[4, 8] = aten::view(%1, [4, 8])
%4 : f32[2, 4, 8]{0, 8, 1} = aten::expand(%3, [2, 4, 8])
%5 : f32[2, 8, 17, 32]{8448, 1056, 64, 1} = aten::slice.Tensor(%0, 2, 0, 33, 2)
%6 : f32[2, 8, 17, 16]{8448, 1056, 64, 2} = aten::slice.Tensor(%5, 3, 0, 32, 2)
%7 : f32[2, 8, 17, 16] = aten::clone(%6, memory_format=format.contiguous)
%8 : f32[2, 8, 272] = aten::view(%7, [2, 8, 272])
%9 : f32[2, 4, 272] = aten::bmm(%4, %8)
%10 : f32[2, 4, 17, 16] = aten::view(%9, [2, 4, 17, 16])
%11 : f32[2, 4, 272] = aten::view(%2, [2, 4, 272])
%18 : f32[2, 8, 33, 32], _, _ = aten::convolution_backward(%2, %0, %1, [0], [2, 2], [0, 0], [1, 1], false, [0, 0], 1, [true, false, false])
%23 : f32[2, 8, 17, 32]{8448, 1056, 64, 1} = aten::slice.Tensor(%0, 2, 0, 33, 2)
%24 : f32[2, 8, 17, 16]{8448, 1056, 64, 2} = aten::slice.Tensor(%23, 3, 0, 32, 2)
%25 : f32[2, 8, 17, 16] = aten::clone(%24, memory_format=format.contiguous)
%26 : f32[2, 8, 272] = aten::view(%25, [2, 8, 272])
%19 : f32[2, 272, 8]{2176, 1, 272} = aten::transpose.int(%26, 1, 2)
%20 : f32[2, 4, 8] = aten::bmm(%11, %19)
%21 : f32[4, 8] = aten::sum.dim_IntList(%20, [0])
%22 : f32[4, 8, 1, 1] = aten::view(%21, [4, 8, 1, 1])
output %10
output %18
output %22
)",
              "aten::view");
}

// 1024 * 512 numbers for each image are more than its operands have.
TEST(PointwiseConvolutions, LargeGradientsOfWeightsStayCalls) {
  Given g(R"(
input %0 : f32[8, 1024, 16, 16] = argument "x"
input %1 : f32[512, 1024, 1, 1] = argument "w"
input %2 : f32[8, 512, 16, 16] = argument "tangent0"
%3 : f32[8, 1024, 16, 16], %4 : f32[512, 1024, 1, 1], _ = aten::convolution_backward(%2, %0, %1, [0], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false])
output %3
output %4
)");
  const Options options;
  EXPECT_TRUE(write_pointwise_convolutions(*g.graph, {.options = options}, g.joint));
  verify(*g.graph);
  const Node& last = *g.graph->outputs[1].value->producer;
  EXPECT_EQ(last.op->name, "aten::convolution_backward");
  EXPECT_EQ(last.results[0], nullptr);
  EXPECT_EQ(g.graph->outputs[0].value->producer->op->name, "aten::view");
}

// The gradient of one image needs no sum. Its 49 pixels are too few for the other products.
TEST(PointwiseConvolutions, TheGradientOfAWeightByOneImage) {
  for (const int images : {1, 2}) {
    Given g(fmt::format(R"(
input %0 : f32[{0}, 512, 7, 7] = argument "x"
input %1 : f32[256, 512, 1, 1] = argument "w"
input %2 : f32[{0}, 256, 7, 7] = argument "tangent0"
%3 : f32[{0}, 512, 7, 7], %4 : f32[256, 512, 1, 1], _ = aten::convolution_backward(%2, %0, %1, [0], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false])
output %3
output %4
)",
                        images));
    const Options options;
    EXPECT_EQ(write_pointwise_convolutions(*g.graph, {.options = options}, g.joint), images == 1);
    verify(*g.graph);
    const Node& first = *g.graph->outputs[0].value->producer;
    EXPECT_EQ(first.op->name, "aten::convolution_backward");
    EXPECT_EQ(first.results[1] == nullptr, images == 1);
    EXPECT_EQ(g.graph->outputs[1].value->producer->op->name == "aten::view", images == 1);
  }
}

TEST(PointwiseConvolutions, OthersStayCalls) {
  const auto text = [](std::string_view x, std::string_view w, std::string_view padding, int groups,
                       std::string_view y) {
    return fmt::format(R"(
input %0 : {} = argument "x"
input %1 : {} = argument "w"
input %2 : {} = argument "tangent0"
%3 : {} = aten::convolution(%0, %1, none, [1, 1], {}, [1, 1], false, [0, 0], {})
%4 : {}, %5 : {}, _ = aten::convolution_backward(%2, %0, %1, [0], [1, 1], {}, [1, 1], false, [0, 0], {}, [true, true, false])
output %3
output %4
output %5
)",
                       x, w, y, y, padding, groups, x, w, padding, groups);
  };
  const auto pass = write_pointwise_convolutions;
  const std::string plain = text("f32[2, 8, 16, 16]", "f32[4, 8, 1, 1]", "[0, 0]", 1, "f32[2, 4, 16, 16]");
  Options eager;
  eager.numerics = "eager";
  expect_unchanged(pass, plain, eager);
  expect_unchanged(pass, plain, {}, DeviceType::CUDA);
  const Options options;
  for (const int64_t bytes : {32, 64}) {  // vectors of AVX2, and of AVX-512
    Given g(plain);
    EXPECT_EQ(pass(*g.graph, {.options = options, .vector_bytes = bytes}, g.joint), bytes == 64);
  }
  expect_unchanged(pass, text("f32[2, 8, 8, 8]", "f32[4, 8, 1, 1]", "[0, 0]", 1, "f32[2, 4, 8, 8]"));
  expect_unchanged(pass, text("f64[2, 8, 16, 16]", "f64[4, 8, 1, 1]", "[0, 0]", 1, "f64[2, 4, 16, 16]"));
  expect_unchanged(pass, text("f32[2, 8, 16, 16]", "f32[4, 8, 3, 3]", "[1, 1]", 1, "f32[2, 4, 16, 16]"));
  expect_unchanged(pass, text("f32[2, 8, 16, 16]", "f32[4, 8, 1, 1]", "[1, 1]", 1, "f32[2, 4, 18, 18]"));
  expect_unchanged(pass, text("f32[2, 8, 16, 16]", "f32[4, 4, 1, 1]", "[0, 0]", 2, "f32[2, 4, 16, 16]"));
  const std::string strides = "{2048, 1, 128, 8}", narrow = "{1024, 1, 64, 4}";
  expect_unchanged(pass,
                   text("f32[2, 8, 16, 16]" + strides, "f32[4, 8, 1, 1]", "[0, 0]", 1, "f32[2, 4, 16, 16]" + narrow));
}

// ---- Channels-last

// The text of a joint graph: `count` times a convolution of some groups of `channels` and one of one pixel, then all
// their derivatives. `device` as in "@cuda:0", `rows` of an image.
std::string pairs(int count, int channels = 1, int all_groups = 8, std::string_view dtype = "f32",
                  std::string_view device = "", int rows = 16) {
  const int wide = all_groups * channels;
  const auto type = [&](int a, int b, int c) { return fmt::format("{}[{}, {}, {}, {}]{}", dtype, a, b, c, c, device); };
  const std::string image = type(2, wide, rows);
  const auto weight = [&](int i) { return i % 2 == 0 ? type(wide, channels, 3) : type(wide, wide, 1); };
  std::string inputs = fmt::format("input %0 : {} = argument \"x\"\n", image), forward, backward, outputs;
  const int tangent = 1 + 2 * count;
  for (int i = 0; i < 2 * count; ++i) inputs += fmt::format("input %{} : {} = argument \"w{}\"\n", 1 + i, weight(i), i);
  inputs += fmt::format("input %{} : {} = argument \"tangent0\"\n", tangent, image);
  const auto arguments = [](int i) { return i % 2 == 0 ? "[1, 1], [1, 1]" : "[1, 1], [0, 0]"; };
  const auto groups = [&](int i) { return i % 2 == 0 ? all_groups : 1; };
  int next = tangent + 1, x = 0;
  std::vector<int> operands;
  for (int i = 0; i < 2 * count; ++i) {
    operands.push_back(x);
    forward += fmt::format("%{} : {} = aten::convolution(%{}, %{}, none, {}, [1, 1], false, [0, 0], {})\n", next, image,
                           x, 1 + i, arguments(i), groups(i));
    x = next++;
  }
  outputs += fmt::format("output %{}\n", x);
  int grad = tangent;
  for (int i = 2 * count; i-- > 0;) {
    backward += fmt::format(
        "%{} : {}, %{} : {}, _ = aten::convolution_backward(%{}, %{}, %{}, [0], {}, [1, 1], false, [0, 0], {}, "
        "[true, true, false])\n",
        next, image, next + 1, weight(i), grad, operands[static_cast<size_t>(i)], 1 + i, arguments(i), groups(i));
    outputs += fmt::format("output %{}\n", next + 1);
    grad = next;
    next += 2;
  }
  return inputs + forward + backward + outputs + fmt::format("output %{}\n", grad);
}

const std::vector<Expr> kLast = {2048, 1, 128, 8};

TEST(ChannelsLastInTraining, ConvolutionsAndTheirDerivatives) {
  Given g(pairs(3));
  const Options options;
  EXPECT_TRUE(use_channels_last(*g.graph, {.options = options, .inference = false}, g.joint));
  verify(*g.graph);
  // The tangent is laid out first, in the backward pass.
  ASSERT_EQ(g.joint.first_backward->op->name, "aten::clone");
  EXPECT_EQ(g.joint.first_backward->input(0), g.graph->inputs.back().value);
  int copies = 0, convolutions = 0;
  for (const Node* n = g.graph->first(); n; n = n->next) {
    copies += n->op->name == "aten::clone";
    if (n->op->name != "aten::convolution" && n->op->name != "aten::convolution_backward") continue;
    ++convolutions;
    EXPECT_EQ(n->results[0]->type.strides, kLast);
    EXPECT_EQ(n->input(0)->type.strides, kLast);
  }
  EXPECT_EQ(convolutions, 12);
  // x in both passes and the tangent, the result and the gradient of x. A weight of one input channel has one order.
  EXPECT_EQ(copies, 5);
  const auto eager = parse(pairs(3));
  for (size_t i = 0; i < eager->outputs.size(); ++i)
    EXPECT_EQ(g.graph->outputs[i].value->type, eager->outputs[i].value->type) << i;
}

// In channels-last, a call for the gradient of a weight holds it once more, and a copy of the weight.
TEST(ChannelsLastInTraining, DerivativesWithLargeWeightsKeepTheirOrder) {
  for (const int rows : {4, 16}) {
    Given g(pairs(3, 4, 8, "f32", "", rows));
    const Options options;
    EXPECT_TRUE(use_channels_last(*g.graph, {.options = options, .inference = false}, g.joint));
    verify(*g.graph);
    for (const Node* n = g.graph->first(); n; n = n->next) {
      const bool backward = n->op->name == "aten::convolution_backward";
      if (!backward && n->op->name != "aten::convolution") continue;
      const bool stays = backward && rows == 4 && n->input(2)->type.sizes[2].is_constant(3);
      n->for_each_input([&](const Value* v) {
        if (v->type.sizes[2].is_constant(rows)) EXPECT_EQ(is_contiguous(v->type), stays) << print(*g.graph);
      });
    }
  }
}

// oneDNN pads the channels of such groups.
TEST(ChannelsLastInTraining, DerivativesOfGroupsThatWidenKeepTheirOrder) {
  std::string text = pairs(3, 1, 8, "f32", "", 2);
  text.insert(text.find("input %1"), "input %90 : f32[16, 1, 3, 3] = argument \"wide\"\n");
  text.insert(text.rfind("output "),
              R"(%91 : f32[2, 16, 2, 2] = aten::convolution(%14, %90, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 8)
%92 : f32[2, 8, 2, 2], %93 : f32[16, 1, 3, 3], _ = aten::convolution_backward(%91, %14, %90, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 8, [true, true, false])
output %93
)");
  Given g(text);
  const Options options;
  EXPECT_TRUE(use_channels_last(*g.graph, {.options = options, .inference = false}, g.joint));
  verify(*g.graph);
  int found = 0;
  for (const Node* n = g.graph->first(); n; n = n->next) {
    if (n->op->name != "aten::convolution_backward" || !n->input(2)->type.sizes[0].is_constant(16)) continue;
    ++found;
    EXPECT_TRUE(is_contiguous(n->input(0)->type) && is_contiguous(n->input(1)->type)) << print(*g.graph);
  }
  EXPECT_EQ(found, 1);
}

TEST(ChannelsLastInTraining, NeedsGroupedConvolutionsBetweenThoseOfOnePixel) {
  const JointPass pass = use_channels_last;
  expect_unchanged(pass, pairs(2));
  for (const int channels : {8, 16}) {
    for (const int64_t bytes : {32, 64}) {  // oneDNN is as fast for whole vectors in eager's order
      Given g(pairs(3, channels));
      const Options options;
      EXPECT_EQ(pass(*g.graph, {.options = options, .inference = false, .vector_bytes = bytes}, g.joint),
                channels * 4 < bytes);
    }
  }
  expect_unchanged(pass, pairs(3), {}, DeviceType::CUDA);
  expect_unchanged(pass, kPointwise);
}

TEST(ChannelsLastInTraining, OnAGpuIsForHalfTypesWithoutGroups) {
  const JointPass pass = use_channels_last;
  const auto text = [](std::string_view dtype, int groups = 1) {
    return pairs(3, 8 / groups, groups, dtype, "@cuda:0");
  };
  expect_unchanged(pass, text("f32"), {}, DeviceType::CUDA);
  expect_unchanged(pass, text("bf16", 8), {}, DeviceType::CUDA);
  expect_unchanged(pass, text("bf16"), {.numerics = "eager"}, DeviceType::CUDA);
  expect_unchanged(pass, pairs(1, 8, 1, "bf16", "@cuda:0"), {}, DeviceType::CUDA);
  Given g(text("bf16"));
  const Options options;
  EXPECT_TRUE(pass(*g.graph, {.options = options, .device = DeviceType::CUDA, .inference = false}, g.joint));
  verify(*g.graph);
  const std::vector<Expr> weight = {72, 1, 24,
                                    8};  // strides of a 3 x 3 weight; a 1 x 1 weight has the same in both orders
  int derivatives = 0;
  for (const Node* n = g.graph->first(); n; n = n->next) {
    const bool backward = n->op->name == "aten::convolution_backward";
    if (!backward && n->op->name != "aten::convolution") continue;
    derivatives += backward;
    EXPECT_EQ(n->input(0)->type.strides, kLast);
    const TensorType& w = n->input(backward ? 2 : 1)->type;
    if (w.sizes[2].is_constant(3)) EXPECT_EQ(w.strides, weight);
    if (backward) EXPECT_EQ(n->results[1]->type.strides, w.strides);
  }
  EXPECT_EQ(derivatives, 6);
  const auto eager = parse(text("bf16"));
  for (size_t i = 0; i < eager->outputs.size(); ++i)
    EXPECT_EQ(g.graph->outputs[i].value->type, eager->outputs[i].value->type) << i;
}

// A gradient that is read along with one in eager's order is read in channels-last.
TEST(ChannelsLastInTraining, PointwiseOperatorsConvertTheirOtherOperands) {
  std::string text = pairs(3);
  const size_t at = text.find("%9 :");
  text.insert(at, "%50 : f32[2, 8, 16, 16] = aten::relu(%0)\n");
  const size_t second = text.find("%10 :");
  text.insert(second, "%51 : f32[2, 8, 16, 16] = aten::add.Tensor(%8, %50)\n");
  const size_t output = text.find("output");
  text.insert(output, "output %51\n");
  const auto parsed = parse(text);  // with numbers in order
  Given g(text);
  const Options options;
  EXPECT_TRUE(use_channels_last(*g.graph, {.options = options, .inference = false}, g.joint));
  verify(*g.graph);
  for (const Node* n = g.graph->first(); n; n = n->next)
    if (n->op->name == "aten::add.Tensor") n->for_each_input([](const Value* v) { EXPECT_EQ(v->type.strides, kLast); });
  EXPECT_EQ(g.graph->outputs[0].value->type, parsed->outputs[0].value->type);
}

// ---- Derivatives of convolutions of one pixel in channels-last

std::string pointwise(std::string_view x = "f32[2, 64, 3, 3]{576, 1, 192, 64}", std::string_view stride = "[1, 1]",
                      std::string_view y = "f32[2, 8, 3, 3]{72, 1, 24, 8}", int groups = 1) {
  return fmt::format(R"(
input %0 : {0} = argument "x"
input %1 : f32[8, 64, 1, 1] = argument "w"
input %2 : {1} = argument "tangent0"
%3 : {0}, %4 : f32[8, 64, 1, 1], %5 : f32[8] = aten::convolution_backward(%2, %0, %1, [8], {2}, [0, 0], [1, 1], false, [0, 0], {3}, [true, true, true])
output %3
output %4
output %5
)",
                     x, y, stride, groups);
}

TEST(PointwiseGradients, AreProductsOfRows) {
  expect_pass(write_pointwise_gradients, pointwise(), R"(
input %0 : f32[2, 64, 3, 3]{576, 1, 192, 64} = argument "x"
input %1 : f32[8, 64, 1, 1] = argument "w"
input %2 : f32[2, 8, 3, 3]{72, 1, 24, 8} = argument "tangent0"
%3 : f32[2, 3, 3, 8] = aten::permute(%2, [0, 2, 3, 1])
%4 : f32[18, 8] = aten::view(%3, [18, 8])
%5 : f32[8, 64] = aten::view(%1, [8, 64])
%6 : f32[18, 64] = aten::mm(%4, %5)
%7 : f32[2, 3, 3, 64] = aten::view(%6, [2, 3, 3, 64])
%8 : f32[2, 64, 3, 3]{576, 1, 192, 64} = aten::permute(%7, [0, 3, 1, 2])
%9 : f32[8, 18]{1, 8} = aten::t(%4)
%10 : f32[2, 3, 3, 64] = aten::permute(%0, [0, 2, 3, 1])
%11 : f32[18, 64] = aten::view(%10, [18, 64])
%12 : f32[8, 64] = aten::mm(%9, %11)
%13 : f32[8, 64, 1, 1] = aten::view(%12, [8, 64, 1, 1])
%14 : f32[8] = aten::sum.dim_IntList(%2, [0, 2, 3])
output %8
output %13
output %14
)",
              "aten::permute");
}

TEST(PointwiseGradients, OfImagesOfOnePixelInAnyLayout) {
  const Options options;
  for (const char* x : {"f32[2, 64, 1, 1]", "f32[2, 64, 1, 1]{64, 1, 64, 64}"}) {
    Given g(pointwise(x, "[1, 1]", "f32[2, 8, 1, 1]"));
    EXPECT_TRUE(has_pointwise_gradients(*g.graph, {.options = options}));
    EXPECT_TRUE(write_pointwise_gradients(*g.graph, {.options = options}, g.joint));
    verify(*g.graph);
    EXPECT_EQ(g.graph->outputs[0].value->type,
              parse(pointwise(x, "[1, 1]", "f32[2, 8, 1, 1]"))->outputs[0].value->type);
  }
}

TEST(PointwiseGradients, OthersStayCalls) {
  const JointPass pass = write_pointwise_gradients;
  expect_unchanged(pass, pointwise("f32[2, 64, 3, 3]", "[1, 1]", "f32[2, 8, 3, 3]"));
  expect_unchanged(pass, pointwise("f32[2, 64, 5, 5]{1600, 1, 320, 64}", "[2, 2]"));
  expect_unchanged(pass,
                   pointwise("f32[2, 512, 3, 3]{4608, 1, 1536, 512}", "[1, 1]", "f32[2, 8, 3, 3]{72, 1, 24, 8}", 8));
  expect_unchanged(pass, pointwise("f32[2, 64, 6, 6]{2304, 1, 384, 64}", "[1, 1]",
                                   "f32[2, 8, 6, 6]{288, 1, 48, 8}"));  // more rows than channels
  Options eager;
  eager.numerics = "eager";
  expect_unchanged(pass, pointwise(), eager);
  expect_unchanged(pass, pointwise(), {}, DeviceType::CUDA);
}

// ---- Gradients of the weights of depthwise convolutions

std::string depthwise(std::string_view w = "f32[8, 1, 1, 2]", std::string_view padding = "[0, 1]", int stride = 1,
                      std::string_view y = "f32[2, 8, 16, 17]{2176, 1, 136, 8}",
                      std::string_view x = "f32[2, 8, 16, 16]{2048, 1, 128, 8}", int groups = 8) {
  return fmt::format(R"(
input %0 : {0} = argument "x"
input %1 : {1} = argument "w"
input %2 : {2} = argument "tangent0"
%3 : {0}, %4 : {1}, _ = aten::convolution_backward(%2, %0, %1, [0], [{4}, {4}], {3}, [1, 1], false, [0, 0], {5}, [true, true, false])
output %3
output %4
)",
                     x, w, y, padding, stride, groups);
}

TEST(DepthwiseGradients, AreSumsOfProductsWithPixels) {
  expect_pass(write_depthwise_gradients, depthwise(), R"(
input %0 : f32[2, 8, 16, 16]{2048, 1, 128, 8} = argument "x"
input %1 : f32[8, 1, 1, 2] = argument "w"
input %2 : f32[2, 8, 16, 17]{2176, 1, 136, 8} = argument "tangent0"
%3 : f32[2, 8, 16, 18]{2304, 1, 144, 8} = aten::constant_pad_nd(%0, [1, 1, 0, 0], 0.0)
%4 : f32[2, 8, 16, 18]{2304, 1, 144, 8} = aten::slice.Tensor(%3, 2, 0, 16, 1)
%5 : f32[2, 8, 16, 17]{2304, 1, 144, 8} = aten::slice.Tensor(%4, 3, 0, 17, 1)
%6 : f32[2, 8, 16, 17]{2176, 1, 136, 8} = aten::mul.Tensor(%2, %5)
%7 : f32[8] = aten::sum.dim_IntList(%6, [0, 2, 3])
%8 : f32[2, 8, 16, 18]{2304, 1, 144, 8} = aten::slice.Tensor(%3, 2, 0, 16, 1)
%9 : f32[2, 8, 16, 17]{2304, 1, 144, 8} = aten::slice.Tensor(%8, 3, 1, 18, 1)
%10 : f32[2, 8, 16, 17]{2176, 1, 136, 8} = aten::mul.Tensor(%2, %9)
%11 : f32[8] = aten::sum.dim_IntList(%10, [0, 2, 3])
%12 : f32[8, 2] = aten::stack([%7, %11], 1)
%13 : f32[8, 1, 1, 2] = aten::view(%12, [8, 1, 1, 2])
%14 : f32[2, 8, 16, 16]{2048, 1, 128, 8}, _, _ = aten::convolution_backward(%2, %0, %1, [0], [1, 1], [0, 1], [1, 1], false, [0, 0], 8, [true, false, false])
output %14
output %13
)",
              "aten::constant_pad_nd");
}

TEST(DepthwiseGradients, WithStrides) {
  std::string text = depthwise("f32[8, 1, 5, 5]", "[2, 2]", 2, "f32[2, 8, 8, 8]{512, 1, 64, 8}");
  text.replace(text.find("_ ="), 1, "%5 : f32[8]");
  text.replace(text.find("[0], ["), 3, "[8]");
  text.replace(text.find("true, false])"), 11, "true, true");
  text += "output %5\n";
  Given g(text);
  const Options options;
  EXPECT_TRUE(has_depthwise_gradients(*g.graph, {.options = options}));
  EXPECT_TRUE(write_depthwise_gradients(*g.graph, {.options = options}, g.joint));
  verify(*g.graph);
  int sums = 0;
  for (const Node* n = g.graph->first(); n; n = n->next) {
    sums += n->op->name == "aten::sum.dim_IntList";
    if (n->op->name == "aten::mul.Tensor")
      EXPECT_EQ(n->input(1)->type.strides, (std::vector<Expr>{3200, 1, 320, 16}));  // every second pixel of 20 x 20
    if (n->op->name == "aten::convolution_backward")
      EXPECT_EQ(std::get<std::vector<bool>>(n->args().back()), (std::vector<bool>{true, false, false}));
  }
  EXPECT_EQ(sums, 26);  // one is the gradient of the bias
}

// oneDNN has code for kernels of 3 x 3 pixels only where the kernel that reads the first row ends inside of the image.
TEST(DepthwiseGradients, OfSmallImagesWithKernelsOfNinePixels) {
  const Options options;
  const auto written = [&](std::string_view x, std::string_view y, int stride) {
    Given g(depthwise("f32[8, 1, 3, 3]", "[1, 1]", stride, y, x));
    return write_depthwise_gradients(*g.graph, {.options = options}, g.joint);
  };
  EXPECT_TRUE(written("f32[2, 8, 2, 2]{32, 1, 16, 8}", "f32[2, 8, 2, 2]{32, 1, 16, 8}", 1));
  EXPECT_FALSE(written("f32[2, 8, 3, 3]{72, 1, 24, 8}", "f32[2, 8, 3, 3]{72, 1, 24, 8}", 1));
  EXPECT_TRUE(written("f32[2, 8, 3, 3]{72, 1, 24, 8}", "f32[2, 8, 2, 2]{32, 1, 16, 8}", 2));
  EXPECT_FALSE(written("f32[2, 8, 4, 4]{128, 1, 32, 8}", "f32[2, 8, 2, 2]{32, 1, 16, 8}", 2));
  EXPECT_TRUE(written("f32[2, 8, 4, 4]{128, 1, 32, 8}", "f32[2, 8, 2, 2]{32, 1, 16, 8}", 3));
}

TEST(DepthwiseGradients, HaveTheStridesOfEager) {
  Given g(depthwise("f32[8, 1, 1, 2]{2, 1, 2, 1}"));
  const Options options;
  EXPECT_TRUE(write_depthwise_gradients(*g.graph, {.options = options}, g.joint));
  verify(*g.graph);
  const Value* const w = g.graph->outputs[1].value;
  EXPECT_EQ(w->type.strides, (std::vector<Expr>{2, 1, 2, 1}));
  EXPECT_EQ(w->producer->op->name, "aten::clone");
}

TEST(DepthwiseGradients, OthersStayCalls) {
  const JointPass pass = write_depthwise_gradients;
  expect_unchanged(pass, depthwise("f32[8, 1, 3, 3]", "[1, 1]", 1, "f32[2, 8, 16, 16]{2048, 1, 128, 8}"));
  expect_unchanged(pass, depthwise("f32[8, 1, 1, 1]", "[0, 0]", 1, "f32[2, 8, 16, 16]{2048, 1, 128, 8}"));
  expect_unchanged(pass, depthwise("f32[8, 1, 9, 9]", "[4, 4]", 1, "f32[2, 8, 16, 16]{2048, 1, 128, 8}"));
  expect_unchanged(pass, depthwise("f32[8, 2, 1, 2]", "[0, 1]", 1, "f32[2, 8, 16, 17]{2176, 1, 136, 8}",
                                   "f32[2, 8, 16, 16]{2048, 1, 128, 8}", 4));
  expect_unchanged(pass, depthwise("f32[8, 1, 1, 2]", "[0, 1]", 1, "f32[2, 8, 16, 17]", "f32[2, 8, 16, 16]"));
  expect_unchanged(pass, depthwise("f64[8, 1, 1, 2]", "[0, 1]", 1, "f64[2, 8, 16, 17]{2176, 1, 136, 8}",
                                   "f64[2, 8, 16, 16]{2048, 1, 128, 8}"));
  Options eager;
  eager.numerics = "eager";
  expect_unchanged(pass, depthwise(), eager);
  expect_unchanged(pass, depthwise(), {}, DeviceType::CUDA);
}

}  // namespace
}  // namespace vesta::graph
