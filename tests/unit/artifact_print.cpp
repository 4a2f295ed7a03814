#include <gtest/gtest.h>

#include "artifact_sample.h"

namespace {

using namespace vesta;

TEST(ArtifactPrint, EveryPart) {
  const artifact::Artifact a = vesta::testing::sample();
  EXPECT_EQ(artifact::print(a), R"(input 0 x: f32[s0, 4] strides [4, 1] on cpu
input 1 w: bf16[4] strides [1] on cpu parameter
symbol s0 = input 0 size 0
symbol s1 = integer 2
guard s0 >= 2  # s0 >= 2 (model.py:3)
one tensor: 0 1
storage_offset of input 1 is 16
buffer b0 input 0: f32[s0, 4] strides [4, 1] on cpu live 0..1
buffer b1 arena ((7 + s0*3) // 8) bytes: f32[((7 + s0*3) // 8)] strides [1] on cpu live 0..2
arena 128 bytes under the hints
0: launch add(read b0+0, write b1+64) sizes [s0] items s0 scratch 0 item_cost 5
1: b1, _ = aten::softmax.int(b1:f32[2]x[1]+1, -1, none, f32, "mean", true, 0.5f)
2: input 0 <- b1:f32[2]x[1]+1
output 0 = b1
output 1 = input 0 as f32[2] strides [1] on cpu from 3 of the storage
output 2 = s0
)");
}

}  // namespace
