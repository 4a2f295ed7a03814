// What recorded models save, beside what PyTorch's own partitioner keeps of them.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "joint_graph.h"

namespace {

using namespace vesta;
using namespace vesta::graph;
using namespace vesta::graph::testing_joint;

struct Recorded {
  const char* name;
  size_t tangents, outputs;
  int64_t eager_bytes;  // by torch's default_partition, which saves what autograd saves; views count with their bases
};

Joint recorded(const Recorded& r) {
  declare_op("aten::detach(Tensor(a) self) -> Tensor(a)");
  declare_op("aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor");
  std::ifstream in(fmt::format("{}/joint_{}.txt", VESTA_TEST_DATA, r.name));
  std::stringstream text;
  text << in.rdbuf();
  const size_t outputs = parse(text.str())->outputs.size();
  return joint(text.str(), r.tangents, outputs - r.outputs);
}

class SavedValuesRecorded : public testing::TestWithParam<Recorded> {};

TEST_P(SavedValuesRecorded, EagersBytesAreThoseOfPyTorch) {
  const Joint j = recorded(GetParam());
  const SavedValues c = choose(j);
  EXPECT_EQ(c.eager_bytes, GetParam().eager_bytes);
  EXPECT_LE(c.bytes, c.eager_bytes);
  EXPECT_LE(c.load_us + c.recompute_us, c.eager_us * 1.000001);
  for (const Node* n : nodes_of_backward(j, c.saved)) {
    EXPECT_NE(n->op->name, "aten::native_dropout");
    EXPECT_NE(n->op->name, "aten::addmm");
  }
}

TEST_P(SavedValuesRecorded, HalfOfThemIsEnoughForALimit) {
  const Joint j = recorded(GetParam());
  const SavedValues c = choose(j, {.fraction = 0.5});
  EXPECT_TRUE(c.reached());
  EXPECT_LE(c.bytes, c.eager_bytes / 2);
  for (const Node* n : nodes_of_backward(j, c.saved)) EXPECT_NE(n->op->name, "aten::native_dropout");
}

INSTANTIATE_TEST_SUITE_P(Models, SavedValuesRecorded,
                         testing::Values(Recorded{"bert", 2, 2, 183296}, Recorded{"conv", 1, 4, 46468}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
