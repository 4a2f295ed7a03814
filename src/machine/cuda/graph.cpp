#include "machine/cuda/graph.h"

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "machine/cuda/driver_table.h"
#include "machine/cuda/kernel_node.h"
#include "machine/cuda/memset_nodes.h"

namespace vesta::machine {
namespace {

using Graph = struct OpaqueGraph*;
using GraphExec = struct OpaqueGraphExec*;

// CUgraphEdgeData of cuda.h: the later node may start as soon as every block of the earlier one has started or has
// allowed it.
struct EdgeData {
  unsigned char from_port = 1;  // CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
  unsigned char to_port = 0;
  unsigned char type = 1;  // CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
  unsigned char reserved[5] = {};
};

constexpr int kKernelNode = 0;  // CU_GRAPH_NODE_TYPE_KERNEL
constexpr int kRelaxed = 2;     // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr unsigned kApart = 1;  // CU_STREAM_NON_BLOCKING: not ordered with any other stream
constexpr int kCaptureIsOn =
    1;  // CU_STREAM_CAPTURE_STATUS_ACTIVE; 2 is a capture that was invalidated but has not ended

// The part of cuda.h that graphs need. Every function returns 0 for success.
struct Functions {
  int (*make_stream)(void** stream, unsigned flags) = nullptr;
  int (*free_stream)(void* stream) = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;
  int (*begin)(void* stream, int mode) = nullptr;
  int (*end)(void* stream, Graph* graph) = nullptr;
  int (*capture)(void* stream, int* status, uint64_t* id, Graph* graph, const GraphNode** after,
                 size_t* count) = nullptr;
  int (*instantiate)(GraphExec* exec, Graph graph, unsigned long long flags) = nullptr;
  int (*nodes)(Graph graph, GraphNode* nodes, size_t* count) = nullptr;
  int (*free_graph)(Graph graph) = nullptr;
  int (*free_exec)(GraphExec exec) = nullptr;
  int (*set_kernel)(GraphExec exec, GraphNode node, const KernelNode* what) = nullptr;
  int (*launch)(GraphExec exec, void* stream) = nullptr;
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void* stream) = nullptr;
  int (*exchange_mode)(int* mode) = nullptr;
  int (*before)(GraphNode node, GraphNode* before, size_t* count) = nullptr;
  int (*type)(GraphNode node, int* type) = nullptr;
  int (*remove)(Graph graph, const GraphNode* from, const GraphNode* to, size_t count) = nullptr;
  // nullptr: the driver is too old
  int (*add)(Graph graph, const GraphNode* from, const GraphNode* to, const EdgeData* edges, size_t count) = nullptr;
};

const DriverTable<Functions>& table() {
  static const auto& found = driver_table<Functions>([](Symbols& symbols, Functions& f) {
    symbols.find(f.make_stream, "cuStreamCreate");
    symbols.find(f.free_stream, "cuStreamDestroy_v2");
    symbols.find(f.is_capturing, "cuStreamIsCapturing");
    symbols.find(f.begin, "cuStreamBeginCapture_v2");
    symbols.find(f.end, "cuStreamEndCapture");
    symbols.find(f.capture, "cuStreamGetCaptureInfo_v2");
    symbols.find(f.instantiate, "cuGraphInstantiateWithFlags");
    symbols.find(f.nodes, "cuGraphGetNodes");
    symbols.find(f.free_graph, "cuGraphDestroy");
    symbols.find(f.free_exec, "cuGraphExecDestroy");
    symbols.find(f.set_kernel, "cuGraphExecKernelNodeSetParams_v2");
    symbols.find(f.launch, "cuGraphLaunch");
    symbols.find(f.copy, "cuMemcpyDtoDAsync_v2");
    symbols.find(f.exchange_mode, "cuThreadExchangeStreamCaptureMode");
    symbols.find(f.before, "cuGraphNodeGetDependencies");
    symbols.find(f.type, "cuGraphNodeGetType");
    symbols.find(f.remove, "cuGraphRemoveDependencies");
    symbols.find_newer(f.add, "cuGraphAddDependencies_v2");
  });
  return found;
}

const Functions& functions() {
  if (!table().driver) VESTA_UNSUPPORTED("CUDA graphs cannot be used: {}", table().problem);
  return table().f;
}

void require(int status, const char* what) { table().require(status, what); }

class Instantiated final : public DeviceGraph {
 public:
  explicit Instantiated(Graph graph) : graph_(graph) {
    try {
      require(functions().nodes(graph, nullptr, &nodes_), "does not count a graph's nodes");
      require(functions().instantiate(&exec_, graph, 0), "does not instantiate a graph");
    } catch (...) {
      functions().free_graph(graph);
      throw;
    }
  }
  ~Instantiated() override {
    // A running launch keeps what it needs. After the driver has shut down both calls fail, which is harmless.
    functions().free_exec(exec_);
    functions().free_graph(graph_);
  }

  void set_arguments(GraphNode node, const DeviceKernel& kernel, const LaunchShape& shape, void** arguments) override {
    KernelNode what;
    what.kernel = kernel.native();
    what.grid[0] = shape.blocks;
    what.block[0] = shape.threads;
    what.shared_bytes = shape.shared;
    what.arguments = arguments;
    require(functions().set_kernel(exec_, node, &what), "does not change a node of a graph");
  }
  void launch(void* stream) override { require(functions().launch(exec_, stream), "does not launch a graph"); }
  size_t nodes() const override { return nodes_; }

 private:
  const Graph graph_;  // owns the nodes
  GraphExec exec_ = nullptr;
  size_t nodes_ = 0;
};

class Stream final : public CaptureStream {
 public:
  Stream() { require(functions().make_stream(&stream_, kApart), "makes no stream"); }
  ~Stream() override {
    abandon();
    functions().free_stream(stream_);
  }
  void* native() const override { return stream_; }
  void begin() override {
    early_.clear();
    require(functions().begin(stream_, kRelaxed), "does not begin a capture");
  }

  GraphNode last_node() const override {
    int status = 0;
    uint64_t id = 0;
    Graph graph = nullptr;
    const GraphNode* after = nullptr;
    size_t count = 0;
    require(functions().capture(stream_, &status, &id, &graph, &after, &count), "tells nothing of a capture");
    VESTA_CHECK(status == kCaptureIsOn && count == 1, "a CUDA graph capture has status {} and ends with {} nodes",
                status, count);
    return after[0];
  }

  void start_early(GraphNode node) override { early_.push_back(node); }

  std::unique_ptr<DeviceGraph> end() override {
    Graph graph = nullptr;
    const int status = functions().end(stream_, &graph);
    if (status != 0 && graph) functions().free_graph(graph);
    require(status, "lost a capture");
    try {
      replace_memset_nodes(graph);
      if (functions().add)
        for (GraphNode node : early_) overlap(graph, node);
    } catch (...) {
      functions().free_graph(graph);
      throw;
    }
    return std::make_unique<Instantiated>(graph);
  }

  void abandon() noexcept override {
    int status = 0;
    if (functions().is_capturing(stream_, &status) != 0 || status == 0) return;
    Graph graph = nullptr;
    functions().end(stream_, &graph);
    if (graph) functions().free_graph(graph);
  }

 private:
  // Only kernels can have such an edge between them.
  static void overlap(Graph graph, GraphNode node) {
    const Functions& f = functions();
    size_t count = 1;
    GraphNode before = nullptr;
    int type = -1;
    if (f.before(node, nullptr, &count) != 0 || count != 1) return;
    if (f.before(node, &before, &count) != 0 || f.type(before, &type) != 0 || type != kKernelNode) return;
    const EdgeData edge;
    require(f.remove(graph, &before, &node, 1), "does not remove an edge of a graph");
    require(f.add(graph, &before, &node, &edge, 1), "does not add an edge to a graph");
  }

  void* stream_ = nullptr;
  std::vector<GraphNode> early_;
};

}  // namespace

std::unique_ptr<CaptureStream> make_capture_stream() { return std::make_unique<Stream>(); }

bool is_capturing(void* stream) {
  if (!stream || !table().driver) return false;
  int status = 0;
  require(table().f.is_capturing(stream, &status), "tells nothing of a stream");
  return status != 0;
}

void copy_on_device(void* to, const void* from, size_t bytes, void* stream) {
  require(functions().copy(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes, stream),
          "does not copy");
}

RelaxedThread::RelaxedThread() : before_(kRelaxed) {
  if (table().driver) table().f.exchange_mode(&before_);
}

RelaxedThread::~RelaxedThread() {
  if (table().driver) table().f.exchange_mode(&before_);
}

}  // namespace vesta::machine
