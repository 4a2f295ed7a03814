// In the place of NVIDIA's driver: one GPU, of compute capability 9.0 or $VESTA_FAKE_GPU (86 is 8.6), whose memory is
// the process's own and whose kernels are functions. Streams run at once what they are given, unless they are captured.
// Linked before the first use, the library is found by the name libcuda.so.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vesta::testing::gpu {

// The values of the parameters, 8 bytes each.
using Kernel = std::function<void(const uint64_t* values)>;

// Code whose symbol is `name` launches this from now on. Machine code of a kernel without one has its parameters noted
// and nothing done.
void define_kernel(const std::string& name, size_t parameters, Kernel kernel);
// Code for load_on_device() of a kernel that is defined.
std::string code_of(const std::string& name);
int libraries_of(const std::string& name);  // how many of the libraries that are loaded have the kernel
// Work of a library on a stream: done now, or by the graph that is being captured.
void enqueue(void* stream, std::function<void()> work);

// CUDA_MEMSET_NODE_PARAMS of cuda.h.
struct Memset {
  uint64_t begin = 0;
  size_t pitch = 0;
  unsigned value = 0, element_bytes = 1;
  size_t width = 0, height = 1;
};
void enqueue(void* stream, const Memset& memset);

struct Calls {
  int64_t launches = 0;  // of kernels, not in graphs
  int64_t graph_launches = 0;
  int64_t changed_nodes = 0;  // cuGraphExecKernelNodeSetParams
  int64_t copies = 0;
  int64_t memsets = 0;         // in graphs that are made
  int64_t early_launches = 0;  // of `launches`: of kernels that may start before those in front of them have ended
  int64_t early = 0;           // edges of graphs over which a kernel starts before the one it follows has ended
};
Calls calls();
// Whether graphs do what their nodes say: off, only the CPU's part of a launch is left.
void set_running(bool on);
// Whether launches of kernels that may start early fail.
void refuse_early_launches(bool on);
// The memory that a library works in, for a stream and the calling thread's handle. Handles of threads that have ended
// serve later threads.
struct LibraryWorkspace {
  int handle = 0;
  void* stream = nullptr;
  const void* memory = nullptr;
};
void note_workspace(const LibraryWorkspace& made);
std::vector<LibraryWorkspace> workspaces();  // that were made, in this order
// The change of a node that is made after `calls` others fails, once.
void fail_change_after(int calls);
// Memory is short: after `served` requests for memory (of the allocator, of a graph that is made, of a kernel that is
// loaded or launched) so many fail. Counted anew at each call; failures 0: none.
void run_short(int served, int failures);
bool is_short();            // for one request
int64_t requests();         // since run_short()
int64_t allocated_bytes();  // that the allocator has given and not got back
void note_allocated(int64_t bytes);

}  // namespace vesta::testing::gpu
