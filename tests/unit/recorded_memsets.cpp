// Memsets of captured graphs become kernels, where a kernel can write what they write; with the fake driver.
#include <gtest/gtest.h>

#include "machine/cuda/graph.h"
#include "recorded_program.h"

namespace {

using namespace vesta;
using namespace vesta::testing;

// A graph in which a kernel reads what the memset writes, between two kernels.
class MemsetNodes : public ::testing::Test {
 protected:
  // The bytes of `memory` after the graph, in which they are all 7 before the memset.
  std::vector<uint8_t> bytes_after(gpu::Memset memset, size_t offset = 0) {
    memory.assign(64, 0);
    seen.assign(64, 0);
    const auto stream = machine::make_capture_stream();
    stream->begin();
    gpu::enqueue(stream->native(), [this] { std::fill(memory.begin(), memory.end(), uint8_t{7}); });
    memset.begin = reinterpret_cast<uint64_t>(memory.data() + offset);
    gpu::enqueue(stream->native(), memset);
    gpu::enqueue(stream->native(), [this] { seen = memory; });
    const auto graph = stream->end();
    EXPECT_EQ(graph->nodes(), 3U);
    for (int launch = 0; launch < 2; ++launch) {
      seen.assign(64, 0);
      graph->launch(nullptr);
    }
    return seen;
  }
  // What a memset writes by itself.
  std::vector<uint8_t> expected(gpu::Memset memset, size_t offset = 0) {
    std::vector<uint8_t> out(64, 7);
    memset.begin = reinterpret_cast<uint64_t>(out.data() + offset);
    gpu::enqueue(nullptr, memset);
    return out;
  }
  std::vector<uint8_t> memory, seen;
};

TEST_F(MemsetNodes, WriteTheSameBytes) {
  const int64_t before = gpu::calls().memsets;
  for (const size_t width : {1, 3, 4, 5, 31, 64})
    EXPECT_EQ(bytes_after({.value = 0xab, .width = width}), expected({.value = 0xab, .width = width})) << width;
  const gpu::Memset halves{.value = 0x1234, .element_bytes = 2, .width = 6};
  EXPECT_EQ(bytes_after(halves), expected(halves));
  const gpu::Memset words{.value = 0x12345678, .element_bytes = 4, .width = 5};
  EXPECT_EQ(bytes_after(words), expected(words));
  EXPECT_EQ(gpu::calls().memsets, before);
}

// They stay memsets.
TEST_F(MemsetNodes, StayWhereAKernelOfWordsCannotWriteThem) {
  const int64_t before = gpu::calls().memsets;
  const gpu::Memset odd{.value = 0x1234, .element_bytes = 2, .width = 5};
  EXPECT_EQ(bytes_after(odd), expected(odd));
  const gpu::Memset rows{.pitch = 16, .value = 1, .width = 8, .height = 3};
  EXPECT_EQ(bytes_after(rows), expected(rows));
  const gpu::Memset misaligned{.value = 2, .width = 8};
  EXPECT_EQ(bytes_after(misaligned, 1), expected(misaligned, 1));
  EXPECT_EQ(gpu::calls().memsets, before + 3);
}

}  // namespace
