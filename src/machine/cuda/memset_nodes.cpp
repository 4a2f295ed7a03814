#include "machine/cuda/memset_nodes.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/log.h"
#include "machine/cuda/driver_table.h"
#include "machine/cuda/kernel_node.h"

namespace vesta::machine {
namespace {

using Graph = struct OpaqueGraph*;

// CUDA_MEMSET_NODE_PARAMS of cuda.h: `height` rows of `width` elements, which begin `pitch` bytes apart.
struct Memset {
  uint64_t begin = 0;
  size_t pitch = 0;
  unsigned value = 0, element_bytes = 0;
  size_t width = 0, height = 0;
};

constexpr int kMemsetNode = 2;  // CU_GRAPH_NODE_TYPE_MEMSET
constexpr uint64_t kWord = 4;   // bytes
constexpr unsigned kThreads = 256, kMostBlocks = 2048;

// Each thread writes words of 4 bytes a grid apart; the first ones also write the `rest` bytes after the words:
//   for (i = first; i < words; i += step) ((unsigned*)begin)[i] = value;
//   if (first < rest) begin[4 * words + first] = (unsigned char)value;
// PTX of version 7.0, which every driver of CUDA 12 finishes for every GPU since Volta.
constexpr char kFill[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry vesta_fill(.param .u64 begin, .param .u64 words, .param .u64 rest, .param .u64 value)
{
  .reg .pred %p<4>;
  .reg .b32 %r<7>;
  .reg .b64 %rd<19>;
  ld.param.u64 %rd8, [begin];
  ld.param.u64 %rd7, [words];
  ld.param.u64 %rd14, [rest];
  ld.param.u64 %rd5, [value];
  cvt.u32.u64 %r2, %rd5;
  cvta.to.global.u64 %rd1, %rd8;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  cvt.u64.u32 %rd2, %r4;
  mul.wide.u32 %rd9, %r3, %r4;
  mov.u32 %r5, %tid.x;
  cvt.u64.u32 %rd10, %r5;
  add.s64 %rd3, %rd9, %rd10;
  setp.ge.u64 %p1, %rd3, %rd7;
  @%p1 bra last_bytes;
  mov.u32 %r6, %nctaid.x;
  cvt.u64.u32 %rd11, %r6;
  mul.lo.s64 %rd4, %rd11, %rd2;
  mov.u64 %rd18, %rd3;
next_word:
  shl.b64 %rd12, %rd18, 2;
  add.s64 %rd13, %rd1, %rd12;
  st.global.u32 [%rd13], %r2;
  add.s64 %rd18, %rd18, %rd4;
  setp.lt.u64 %p2, %rd18, %rd7;
  @%p2 bra next_word;
last_bytes:
  setp.ge.u64 %p3, %rd3, %rd14;
  @%p3 bra done;
  shl.b64 %rd15, %rd7, 2;
  add.s64 %rd16, %rd15, %rd3;
  add.s64 %rd17, %rd1, %rd16;
  st.global.u8 [%rd17], %r2;
done:
  ret;
}
)";

// The part of cuda.h that is needed here. Every function returns 0 for success.
struct Functions {
  int (*nodes)(Graph graph, GraphNode* nodes, size_t* count) = nullptr;
  int (*type)(GraphNode node, int* type) = nullptr;
  int (*memset)(GraphNode node, Memset* what) = nullptr;
  int (*before)(GraphNode node, GraphNode* before, size_t* count) = nullptr;
  int (*after)(GraphNode node, GraphNode* after, size_t* count) = nullptr;
  int (*add_kernel)(GraphNode* node, Graph graph, const GraphNode* before, size_t count,
                    const KernelNode* what) = nullptr;
  int (*add_edges)(Graph graph, const GraphNode* from, const GraphNode* to, size_t count) = nullptr;
  int (*remove)(GraphNode node) = nullptr;
};

const DriverTable<Functions>& table() {
  static const auto& found = driver_table<Functions>([](Symbols& symbols, Functions& f) {
    symbols.find(f.nodes, "cuGraphGetNodes");
    symbols.find(f.type, "cuGraphNodeGetType");
    symbols.find(f.memset, "cuGraphMemsetNodeGetParams");
    symbols.find(f.before, "cuGraphNodeGetDependencies");
    symbols.find(f.after, "cuGraphNodeGetDependentNodes");
    symbols.find(f.add_kernel, "cuGraphAddKernelNode_v2");
    symbols.find(f.add_edges, "cuGraphAddDependencies");
    symbols.find(f.remove, "cuGraphDestroyNode");
  });
  return found;
}

// nullptr: memsets stay.
CudaKernel fill() {
  static const CudaKernel found = []() -> CudaKernel {
    const Driver* const driver = table().driver;
    try {
      return driver ? driver->kernel(driver->load(kFill), "vesta_fill") : nullptr;
    } catch (const Error& e) {
      log::print(log::Topic::Graph, "memsets stay in CUDA graphs: {}", e.what());
      return nullptr;
    }
  }();
  return found;
}

// The nodes on one side of a node, by one of the driver's functions.
std::vector<GraphNode> neighbours(int (*function)(GraphNode, GraphNode*, size_t*), GraphNode node) {
  size_t count = 0;
  table().require(function(node, nullptr, &count), "counts no neighbours of a graph's node");
  std::vector<GraphNode> out(count);
  if (count > 0) table().require(function(node, out.data(), &count), "tells no neighbours of a graph's node");
  return out;
}

// The elements of a word.
uint64_t word_of(const Memset& m) {
  if (m.element_bytes == 1) return (m.value & 0xffU) * 0x01010101U;
  return m.element_bytes == 2 ? (m.value & 0xffffU) * 0x00010001U : m.value;
}

// The kernel writes one row of words, and after them bytes.
bool can_be_filled(const Memset& m) {
  const bool is_words = m.element_bytes == 1 || m.width * m.element_bytes % kWord == 0;
  return m.height == 1 && is_words && m.begin % kWord == 0;
}

void replace(Graph graph, GraphNode node) {
  const DriverTable<Functions>& driver = table();
  Memset m;
  if (driver.f.memset(node, &m) != 0 || !can_be_filled(m)) return;
  const uint64_t bytes = uint64_t{m.width} * m.element_bytes;
  uint64_t words = bytes / kWord, rest = bytes % kWord, value = word_of(m);
  void* arguments[] = {&m.begin, &words, &rest, &value};
  KernelNode launch;
  launch.kernel = fill();
  launch.block[0] = kThreads;
  launch.grid[0] = static_cast<unsigned>(std::clamp<uint64_t>((words + kThreads - 1) / kThreads, 1, kMostBlocks));
  launch.arguments = arguments;
  const std::vector<GraphNode> before = neighbours(driver.f.before, node), after = neighbours(driver.f.after, node);
  GraphNode made = nullptr;
  driver.require(driver.f.add_kernel(&made, graph, before.data(), before.size(), &launch), "adds no kernel to a graph");
  const std::vector<GraphNode> from(after.size(), made);
  if (!after.empty())
    driver.require(driver.f.add_edges(graph, from.data(), after.data(), after.size()), "adds no edge to a graph");
  driver.require(driver.f.remove(node), "removes no node of a graph");
}

}  // namespace

const char* fill_ptx() { return kFill; }

void replace_memset_nodes(Graph graph) {
  const DriverTable<Functions>& driver = table();
  if (!fill()) return;
  size_t count = 0;
  driver.require(driver.f.nodes(graph, nullptr, &count), "does not count a graph's nodes");
  std::vector<GraphNode> nodes(count);
  if (count > 0) driver.require(driver.f.nodes(graph, nodes.data(), &count), "does not tell a graph's nodes");
  for (GraphNode node : nodes) {
    int type = 0;
    if (driver.f.type(node, &type) == 0 && type == kMemsetNode) replace(graph, node);
  }
}

}  // namespace vesta::machine
