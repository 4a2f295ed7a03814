// Takes the place of NVIDIA's driver: a GPU whose kernels take as many microseconds as their blocks have threads, plus
// one for each byte of a pointer's first one (a kernel adds one to it). Streams, graphs and events are ordered by a
// clock that launches move on. What is called wrongly ends the process.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "the fake driver: %s\n", what);
  std::abort();
}

constexpr size_t kFree = 1 << 20;                                    // bytes of memory
constexpr unsigned kRefused = 96;                                    // threads of a block
constexpr unsigned kDeclaredShared = 1088, kGivenShared = 48 << 10;  // bytes of a block
constexpr int kMostSharedBytes = 8;                                  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr int kOutOfMemory = 2, kInvalid = 1, kOutOfResources = 701;

struct Launch {
  unsigned threads = 0;
  std::vector<unsigned char*> pointers;
};
struct Graph {
  std::vector<Launch> launches;
};
struct Stream {
  bool captures = false;
  Graph graph;
};

double now_us = 0;
std::map<unsigned char*, size_t> allocated;
std::map<void*, unsigned> allowed_shared;  // of a kernel

void run(const Launch& l) {
  now_us += l.threads;
  for (unsigned char* p : l.pointers) {
    bool inside = false;
    for (const auto& [begin, bytes] : allocated) inside |= p >= begin && p < begin + bytes;
    require(inside, "a kernel's pointer is in no memory");
    now_us += *p;
    ++*p;
  }
}

size_t in_use() {
  size_t bytes = 0;
  for (const auto& a : allocated) bytes += a.second;
  return bytes;
}

}  // namespace

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* n) { return *n = 1, 0; }
int cuDeviceGetAttribute(int* value, int which, int) { return *value = which == 75 ? 9 : 0, 0; }
int cuCtxGetCurrent(void** c) { return *c = &now_us, 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuDevicePrimaryCtxRetain(void** c, int) { return *c = &now_us, 0; }
int cuLibraryLoadData(void** library, const void*, int*, void**, unsigned, int*, void**, unsigned) {
  return *library = new int, 0;
}
int cuLibraryUnload(void*) { return 0; }
int cuLibraryGetKernel(void** kernel, void* library, const char*) { return *kernel = library, 0; }
int cuCtxGetDevice(int* d) { return *d = 0, 0; }
int cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  if (attribute == kMostSharedBytes) allowed_shared[kernel] = static_cast<unsigned>(value);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = kFree, 0; }
int cuGetErrorString(int, const char** text) { return *text = "an error of the tests", 0; }
int cuFuncSetAttribute(void*, int, int) { return 0; }

// Two pointers, a size (7) and the work items (5).
int cuLaunchKernelEx(const void*, void*, void**, void**) { return 1; }  // the meter asks for no such launch
int cuLaunchKernel(void* kernel, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                   unsigned shared, void* stream, void** arguments, void**) {
  require(blocks == 3 && y == 1 && z == 1, "another grid");
  if (shared + kDeclaredShared > kGivenShared && allowed_shared[kernel] < shared) return kInvalid;
  if (threads == kRefused) return kOutOfResources;
  Launch l{threads, {}};
  for (int i = 0; i < 2; ++i)
    if (auto* p = *static_cast<unsigned char**>(arguments[i])) l.pointers.push_back(p);
  require(*static_cast<int64_t*>(arguments[2]) == 7 && *static_cast<int64_t*>(arguments[3]) == 5, "other numbers");
  auto* s = static_cast<Stream*>(stream);
  if (s->captures)
    s->graph.launches.push_back(l);
  else
    run(l);
  return 0;
}

int cuStreamCreate(void** stream, unsigned) { return *stream = new Stream, 0; }
int cuStreamDestroy_v2(void* stream) { return delete static_cast<Stream*>(stream), 0; }
int cuStreamIsCapturing(void* stream, int* status) { return *status = static_cast<Stream*>(stream)->captures, 0; }
int cuStreamBeginCapture_v2(void* stream, int) {
  auto* s = static_cast<Stream*>(stream);
  require(!s->captures, "a capture in a capture");
  return *s = {true, {}}, 0;
}
int cuStreamEndCapture(void* stream, void** graph) {
  auto* s = static_cast<Stream*>(stream);
  require(s->captures, "the end of no capture");
  *graph = new Graph(s->graph);
  return *s = {}, 0;
}
int cuStreamGetCaptureInfo_v2(void*, int*, uint64_t*, void**, const void**, size_t*) { return kInvalid; }
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  return *exec = new Graph(*static_cast<Graph*>(graph)), 0;
}
int cuGraphGetNodes(void* graph, void*, size_t* count) {
  return *count = static_cast<Graph*>(graph)->launches.size(), 0;
}
int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
int cuGraphExecDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
int cuGraphExecKernelNodeSetParams_v2(void*, void*, const void*) { return kInvalid; }
int cuGraphLaunch(void* exec, void*) {
  now_us += 1000 * (now_us == 0);  // the first launch of all
  for (const Launch& l : static_cast<Graph*>(exec)->launches) run(l);
  return 0;
}
int cuGraphNodeGetType(void*, int*) { return kInvalid; }
int cuGraphNodeGetDependencies(void*, void*, size_t*) { return kInvalid; }
int cuGraphAddDependencies_v2(void*, const void*, const void*, const void*, size_t) { return kInvalid; }
int cuGraphRemoveDependencies(void*, const void*, const void*, size_t) { return kInvalid; }
int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, void*) { return kInvalid; }
int cuThreadExchangeStreamCaptureMode(int* mode) {
  static int now = 0;
  std::swap(now, *mode);
  return 0;
}

int cuMemGetInfo_v2(size_t* free, size_t* total) { return *total = kFree, *free = kFree - in_use(), 0; }
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (bytes > kFree - in_use()) return kOutOfMemory;
  auto* p = static_cast<unsigned char*>(std::malloc(bytes));
  std::memset(p, 77, bytes);
  allocated[p] = bytes;
  return *address = reinterpret_cast<uint64_t>(p), 0;
}
int cuMemFree_v2(uint64_t address) {
  auto* p = reinterpret_cast<unsigned char*>(address);
  require(allocated.erase(p) == 1, "memory that was not allocated is freed");
  std::free(p);
  return 0;
}
int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void*) {
  auto* p = reinterpret_cast<unsigned char*>(address);
  require(allocated.contains(p) && bytes <= allocated[p], "other memory is filled");
  return std::memset(p, value, bytes), 0;
}
int cuEventCreate(void** event, unsigned) { return *event = new double(-1), 0; }
int cuEventDestroy_v2(void* event) { return delete static_cast<double*>(event), 0; }
int cuEventRecord(void* event, void*) { return *static_cast<double*>(event) = now_us, 0; }
int cuEventSynchronize(void*) { return 0; }
int cuEventElapsedTime(float* ms, void* from, void* to) {
  require(*static_cast<double*>(from) >= 0 && *static_cast<double*>(to) >= 0, "an event was not recorded");
  return *ms = static_cast<float>((*static_cast<double*>(to) - *static_cast<double*>(from)) / 1000), 0;
}
}
