// CUDA graphs by the driver: a capture on a stream of our own, and what was instantiated of it.
#pragma once

#include <cstddef>
#include <memory>

#include "machine/load.h"

namespace vesta::machine {

using GraphNode = struct OpaqueGraphNode*;  // CUgraphNode

// A graph that can be launched. Its nodes' memory must be there when it runs. Not thread-safe.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // `node` launches `kernel`. The launches of the graph that follow give it these arguments; those before keep theirs.
  virtual void set_arguments(GraphNode node, const DeviceKernel& kernel, const LaunchShape& shape,
                             void** arguments) = 0;
  virtual void launch(void* stream) = 0;
  virtual size_t nodes() const = 0;
};

// A stream that serves captures alone. Captures are relaxed: nothing that any thread calls meanwhile is an error
// because of them.
class CaptureStream {
 public:
  virtual ~CaptureStream() = default;
  virtual void* native() const = 0;  // CUstream
  virtual void begin() = 0;
  // The node of what the stream was given last, which was one node.
  virtual GraphNode last_node() const = 0;
  // `node` is that of a kernel which waits by itself (DeviceKernel::waits): in the graph it is started while the kernel
  // before it still runs, where the driver knows such edges (CUDA 12.3).
  virtual void start_early(GraphNode node) = 0;
  // Throws InternalError where the capture was lost: something was called that cannot be captured.
  virtual std::unique_ptr<DeviceGraph> end() = 0;
  // Ends the capture, if there is one, and drops what it holds.
  virtual void abandon() noexcept = 0;
};

// In the current context. Throws Unsupported where the driver has no graphs.
std::unique_ptr<CaptureStream> make_capture_stream();
// Whether someone captures what is done on this stream (CUstream; null, the default stream, cannot be captured).
bool is_capturing(void* stream);
// A copy within the memory of the GPUs, on the stream.
void copy_on_device(void* to, const void* from, size_t bytes, void* stream);

// While it lives, what the calling thread calls of CUDA is no error because of somebody's capture.
class RelaxedThread {
 public:
  RelaxedThread();
  ~RelaxedThread();
  RelaxedThread(const RelaxedThread&) = delete;

 private:
  int before_;
};

}  // namespace vesta::machine
