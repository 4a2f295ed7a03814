#include "fake_gpu/driver.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vesta::testing::gpu {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kFake = "fake gpu code";

void fill(const Memset& m) {
  for (size_t row = 0; row < m.height; ++row)
    for (size_t i = 0; i < m.width * m.element_bytes; ++i)
      reinterpret_cast<unsigned char*>(m.begin)[row * m.pitch + i] =
          static_cast<unsigned char>(m.value >> i % m.element_bytes * 8);
}

struct LoadedKernel {
  size_t parameters = 0;
  Kernel run;                     // empty: nothing
  std::atomic<int> libraries{0};  // loaded ones that contain it
};
struct Library {
  const char* code = nullptr;
  LoadedKernel* kernel = nullptr;  // null: nobody has asked for it
};

struct Graph;
struct Node {
  const LoadedKernel* kernel = nullptr;  // null: `work`
  std::vector<uint64_t> values;
  std::function<void()> work;
  std::optional<Memset> memset = {};
  Node* before = nullptr;  // in a graph
  Graph* graph = nullptr;
  void run() const {
    if (memset) return fill(*memset);
    if (!kernel) return work();
    if (kernel->libraries == 0) std::abort();  // its code has been unloaded
    if (kernel->run) kernel->run(values.data());
  }
};
struct UserObject {
  void* value;
  void (*destroy)(void*);
  std::atomic<unsigned> references;
};
thread_local bool in_destructor = false;  // of a user object, which may call nothing of the driver

void release(UserObject* object, unsigned references) {
  if ((object->references -= references) > 0) return;
  std::thread([object] {
    in_destructor = true;
    object->destroy(object->value);
    delete object;
  }).join();
}

struct Graph : std::vector<std::unique_ptr<Node>> {
  std::vector<std::shared_ptr<UserObject>> kept;
};
struct Exec {
  std::vector<std::shared_ptr<UserObject>> kept;
  std::vector<Node> nodes;
  std::unordered_map<const Node*, size_t> places;  // by node of the graph
};
struct Stream {
  std::unique_ptr<Graph> capture;
};

struct State {
  std::mutex mutex;
  std::map<std::string, LoadedKernel> kernels;
  std::vector<std::unique_ptr<LoadedKernel>> unknown;  // of other code, which goes when it is loaded
  std::unordered_map<void*, Stream*> streams;
  std::atomic<int64_t> launches{0}, graph_launches{0}, changed_nodes{0}, copies{0}, memsets{0};
  std::atomic<int64_t> early_launches{0}, early{0};
  std::atomic<bool> refuses_early{false};
  std::vector<LibraryWorkspace> workspaces;
  std::atomic<bool> running{true};
  std::atomic<int> until_failure{-1};
  std::atomic<int64_t> requests{0}, served{0}, failures{0}, allocated{0};
};
State& state() {
  static auto* s = new State;
  return *s;
}

Stream* stream_of(void* handle) {
  const std::lock_guard lock(state().mutex);
  const auto at = state().streams.find(handle);
  return at == state().streams.end() ? nullptr : at->second;
}

void give(void* stream, Node node) {
  Stream* const on = stream_of(stream);
  if (on && on->capture) {
    if (!on->capture->empty()) node.before = on->capture->back().get();
    node.graph = on->capture.get();
    on->capture->push_back(std::make_unique<Node>(std::move(node)));
  } else if (state().running) {
    node.run();
  }
}

// Of a cubin (an ELF file): how many parameters its kernel has, by the section .nv.info.NAME.
size_t parameters_of(const char* cubin, const std::string& symbol) {
  const auto at = [&]<class T>(uint64_t offset, T value) {
    std::memcpy(&value, cubin + offset, sizeof value);
    return value;
  };
  if (std::memcmp(cubin, "\177ELF", 4) != 0) return 0;
  const auto sections = at(0x28, uint64_t{}), size = uint64_t{at(0x3A, uint16_t{})};
  const auto count = at(0x3C, uint16_t{}), names_at = at(0x3E, uint16_t{});
  const auto names = at(sections + names_at * size + 0x18, uint64_t{});
  size_t found = 0;
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t header = sections + i * size;
    if (cubin + names + at(header, uint32_t{}) != ".nv.info." + symbol) continue;
    uint64_t p = at(header + 0x18, uint64_t{});
    const uint64_t end = p + at(header + 0x20, uint64_t{});
    while (p + 4 <= end) {
      constexpr uint8_t kSized = 4, kParameter = 0x17;
      const auto format = at(p, uint8_t{}), attribute = at(p + 1, uint8_t{});
      found += format == kSized && attribute == kParameter;
      p += 4 + (format == kSized ? at(p + 2, uint16_t{}) : 0);
    }
  }
  return found;
}

std::vector<uint64_t> values_of(const LoadedKernel& kernel, void** arguments) {
  std::vector<uint64_t> values(kernel.parameters);
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], arguments[i], sizeof(uint64_t));
  return values;
}

}  // namespace

void define_kernel(const std::string& name, size_t parameters, Kernel kernel) {
  const std::lock_guard lock(state().mutex);
  LoadedKernel& k = state().kernels[name];
  k.parameters = parameters;
  k.run = std::move(kernel);
}

std::string code_of(const std::string& name) { return std::string(kFake) + ' ' + name + '\0'; }

void enqueue(void* stream, std::function<void()> work) { give(stream, {nullptr, {}, std::move(work)}); }

Calls calls() {
  const State& s = state();
  return {s.launches, s.graph_launches, s.changed_nodes, s.copies, s.memsets, s.early_launches, s.early};
}

void enqueue(void* stream, const Memset& memset) { give(stream, {nullptr, {}, {}, memset}); }

int libraries_of(const std::string& name) {
  const std::lock_guard lock(state().mutex);
  return state().kernels.at(name).libraries;
}
void refuse_early_launches(bool on) { state().refuses_early = on; }
void note_workspace(const LibraryWorkspace& made) {
  const std::lock_guard lock(state().mutex);
  state().workspaces.push_back(made);
}
std::vector<LibraryWorkspace> workspaces() {
  const std::lock_guard lock(state().mutex);
  return state().workspaces;
}
void set_running(bool on) { state().running = on; }
void run_short(int served, int failures) {
  state().requests = 0;
  state().served = served;
  state().failures = failures;
}
bool is_short() {
  State& s = state();
  const int64_t number = s.requests++;
  return number >= s.served && number < s.served + s.failures;
}
int64_t requests() { return state().requests; }
int64_t allocated_bytes() { return state().allocated; }
void note_allocated(int64_t bytes) { state().allocated += bytes; }
void fail_change_after(int calls) { state().until_failure = calls; }

}  // namespace vesta::testing::gpu

// ---- The driver's functions. Types and values as in cuda.h; 0 is success.

using namespace vesta::testing::gpu;

namespace {
constexpr int kNotFound = 500, kOutOfMemory = 2, kNotPermitted = 800;
struct KernelParameters {  // CUDA_KERNEL_NODE_PARAMS_v2
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void** arguments;
  void** extra;
  void* kernel;
  void* context;
};
}  // namespace

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) { return *count = 1, 0; }
int cuDeviceGetAttribute(int* value, int which, int) {
  constexpr int kMajor = 75, kMinor = 76, kMultiprocessors = 16;
  static const char* const named = std::getenv("VESTA_FAKE_GPU");
  static const int arch = named ? std::atoi(named) : 90;
  *value = which == kMajor ? arch / 10 : which == kMinor ? arch % 10 : which == kMultiprocessors ? 132 : 1 << 16;
  return 0;
}
int cuCtxGetCurrent(void** context) { return *context = &state(), 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &state(), 0; }
int cuLibraryLoadData(void** library, const void* code, int*, void**, unsigned, int*, void**, unsigned) {
  if (is_short()) return kOutOfMemory;
  return *library = new Library{static_cast<const char*>(code)}, 0;
}
int cuLibraryUnload(void* library) {
  if (in_destructor) return kNotPermitted;
  const std::unique_ptr<const Library> unloaded(static_cast<const Library*>(library));
  if (unloaded->kernel) --unloaded->kernel->libraries;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  const std::lock_guard lock(state().mutex);
  auto* const from = static_cast<Library*>(library);
  const char* const code = from->code;
  if (std::memcmp(code, kFake.data(), kFake.size()) == 0) {
    const auto at = state().kernels.find(name);
    if (at == state().kernels.end()) return kNotFound;
    from->kernel = &at->second;
  } else if (name == "vesta_fill"sv) {  // what its PTX says
    static LoadedKernel fills{4, [](const uint64_t* v) {
                                for (uint64_t i = 0; i < v[1]; ++i)
                                  reinterpret_cast<uint32_t*>(v[0])[i] = static_cast<uint32_t>(v[3]);
                                for (uint64_t i = 0; i < v[2]; ++i)
                                  reinterpret_cast<uint8_t*>(v[0])[4 * v[1] + i] = static_cast<uint8_t>(v[3]);
                              }};
    from->kernel = &fills;
  } else {
    from->kernel = state().unknown.emplace_back(std::make_unique<LoadedKernel>()).get();
    from->kernel->parameters = parameters_of(code, name);
  }
  ++from->kernel->libraries;
  *kernel = from->kernel;
  return 0;
}
int cuLaunchKernel(void* kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void* stream,
                   void** arguments, void**) {
  if (is_short()) return kOutOfMemory;
  ++state().launches;
  const auto* const k = static_cast<const LoadedKernel*>(kernel);
  give(stream, {k, values_of(*k, arguments), {}});
  return 0;
}
struct LaunchConfig {  // CUlaunchConfig
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const int* attributes;
  unsigned attribute_count;
};
int cuLaunchKernelEx(const LaunchConfig* config, void* kernel, void** arguments, void** extra) {
  constexpr int kProgrammaticSerialization = 6, kInvalid = 1;
  if (config->attribute_count != 1 || config->attributes[0] != kProgrammaticSerialization) return kInvalid;
  if (state().refuses_early) return kInvalid;
  const int status = cuLaunchKernel(kernel, 0, 0, 0, 0, 0, 0, 0, config->stream, arguments, extra);
  if (status == 0) ++state().early_launches;
  return status;
}
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuKernelSetAttribute(int, int, void*, int) { return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = size_t{8} << 30, 0; }
// NVRTC asks the driver of its process for these.
int cuDriverGetVersion(int* version) { return *version = 12000, 0; }
int cuGetExportTable(const void** table, const void*) { return *table = nullptr, kNotFound; }
int cuGetErrorString(int, const char** text) { return *text = "an error", 0; }

int cuStreamCreate(void** stream, unsigned) {
  const std::lock_guard lock(state().mutex);
  auto* const made = new Stream;
  state().streams[made] = made;
  return *stream = made, 0;
}
int cuStreamDestroy_v2(void* stream) {
  const std::lock_guard lock(state().mutex);
  state().streams.erase(stream);
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  const Stream* const s = stream_of(stream);
  return *status = s && s->capture, 0;
}
int cuStreamBeginCapture_v2(void* stream, int) {
  static_cast<Stream*>(stream)->capture = std::make_unique<Graph>();
  return 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  return *graph = static_cast<Stream*>(stream)->capture.release(), 0;
}
int cuStreamGetCaptureInfo_v2(void* stream, int* status, uint64_t* id, void** graph, void* const** after,
                              size_t* count) {
  static thread_local void* last = nullptr;
  Graph* const g = static_cast<Stream*>(stream)->capture.get();
  *status = g != nullptr;
  *id = 0;
  *graph = g;
  *count = g && !g->empty();
  last = *count ? g->back().get() : nullptr;
  *after = &last;
  return 0;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  if (is_short()) return kOutOfMemory;
  auto* const made = new Exec;
  // One after another: each node has at most one that follows it.
  std::unordered_map<const Node*, const Node*> after;
  for (const auto& node : *static_cast<Graph*>(graph))
    if (!after.emplace(node->before, node.get()).second) std::abort();
  for (auto at = after.find(nullptr); at != after.end(); at = after.find(at->second)) {
    made->places[at->second] = made->nodes.size();
    made->nodes.push_back(*at->second);
    state().memsets += at->second->memset.has_value();
  }
  if (made->nodes.size() != static_cast<Graph*>(graph)->size()) std::abort();
  made->kept = static_cast<Graph*>(graph)->kept;
  return *exec = made, 0;
}
int cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  const Graph& g = *static_cast<Graph*>(graph);
  for (size_t i = 0; nodes && i < std::min(*count, g.size()); ++i) nodes[i] = g[i].get();
  return *count = g.size(), 0;
}
int cuGraphMemsetNodeGetParams(void* node, Memset* what) { return *what = *static_cast<Node*>(node)->memset, 0; }
int cuGraphNodeGetDependentNodes(void* node, void** after, size_t* count) {
  size_t found = 0;
  for (const auto& n : *static_cast<Node*>(node)->graph) {
    if (n->before != node) continue;
    if (after) after[found] = n.get();
    ++found;
  }
  return *count = found, 0;
}
int cuGraphAddKernelNode_v2(void** made, void* graph, void* const* before, size_t count, const KernelParameters* what) {
  Graph& g = *static_cast<Graph*>(graph);
  const auto* const k = static_cast<const LoadedKernel*>(what->kernel);
  g.push_back(std::make_unique<Node>(Node{k, values_of(*k, what->arguments), {}}));
  g.back()->graph = &g;
  g.back()->before = count > 0 ? static_cast<Node*>(before[0]) : nullptr;
  return *made = g.back().get(), 0;
}
int cuGraphAddDependencies(void*, void* const* from, void* const* to, size_t count) {
  for (size_t i = 0; i < count; ++i) static_cast<Node*>(to[i])->before = static_cast<Node*>(from[i]);
  return 0;
}
int cuGraphDestroyNode(void* node) {
  std::erase_if(*static_cast<Node*>(node)->graph, [&](const auto& n) { return n.get() == node; });
  return 0;
}
int cuGraphNodeGetDependencies(void* node, void** before, size_t* count) {
  Node* const found = static_cast<Node*>(node)->before;
  if (before && found) *before = found;
  return *count = found != nullptr, 0;
}
int cuGraphNodeGetType(void* node, int* type) {
  constexpr int kKernel = 0, kMemset = 2, kHost = 3;
  const Node& n = *static_cast<Node*>(node);
  return *type = n.kernel ? kKernel : n.memset ? kMemset : kHost, 0;
}
int cuGraphRemoveDependencies(void*, void* const* from, void* const* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Node* const node = static_cast<Node*>(to[i]);
    if (node->before != from[i]) return kNotFound;
    node->before = nullptr;
  }
  return 0;
}
int cuGraphAddDependencies_v2(void*, void* const* from, void* const* to, const unsigned char* edges, size_t count) {
  constexpr size_t kEdge = 8, kType = 2;  // bytes of CUgraphEdgeData, and where its type stands
  for (size_t i = 0; i < count; ++i) {
    Node* const node = static_cast<Node*>(to[i]);
    if (node->before) return kNotFound;
    node->before = static_cast<Node*>(from[i]);
    state().early += edges[i * kEdge + kType] == 1;  // CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
  }
  return 0;
}
int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
int cuGraphExecDestroy(void* exec) { return delete static_cast<Exec*>(exec), 0; }
int cuGraphExecKernelNodeSetParams_v2(void* exec, void* node, const KernelParameters* what) {
  if (state().until_failure >= 0 && state().until_failure-- == 0) return kNotFound;
  ++state().changed_nodes;
  auto* const e = static_cast<Exec*>(exec);
  Node& changed = e->nodes[e->places.at(static_cast<const Node*>(node))];
  changed.kernel = static_cast<const LoadedKernel*>(what->kernel);
  changed.values = values_of(*changed.kernel, what->arguments);
  return 0;
}
int cuGraphLaunch(void* exec, void*) {
  if (is_short()) return kOutOfMemory;
  ++state().graph_launches;
  if (!state().running) return 0;
  for (const Node& node : static_cast<Exec*>(exec)->nodes) node.run();
  return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
  ++state().copies;
  if (state().running) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
int cuUserObjectCreate(void** object, void* value, void (*destroy)(void*), unsigned references, unsigned) {
  return *object = new UserObject{value, destroy, {references}}, 0;
}
int cuUserObjectRelease(void* object, unsigned references) {
  return release(static_cast<UserObject*>(object), references), 0;
}
int cuGraphRetainUserObject(void* graph, void* object, unsigned references, unsigned) {  // moves them
  static_cast<Graph*>(graph)->kept.emplace_back(static_cast<UserObject*>(object),
                                                [references](UserObject* o) { release(o, references); });
  return 0;
}
}
