// CUDA graphs through the driver: captures on a stream of Vesta's own, and the instantiated graphs. Does not own the
// memory that nodes use.
#pragma once

#include <cstddef>
#include <memory>

#include "machine/load.h"

namespace vesta::machine {

using GraphNode = struct OpaqueGraphNode*;  // CUgraphNode

// A graph that can be launched. Its caller keeps the memory of its nodes alive. Not thread-safe.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // `node` launches `kernel`. Later launches of the graph pass it these arguments; launches already started keep
  // theirs.
  virtual void set_arguments(GraphNode node, const DeviceKernel& kernel, const LaunchShape& shape,
                             void** arguments) = 0;
  virtual void launch(void* stream) = 0;
  virtual size_t nodes() const = 0;
};

// A stream that is only used for captures. Captures are relaxed: no CUDA call of any thread becomes an error because of
// them.
class CaptureStream {
 public:
  virtual ~CaptureStream() = default;
  virtual void* native() const = 0;  // CUstream
  virtual void begin() = 0;
  // The node of the work that was last put on the stream, which must have been one node.
  virtual GraphNode last_node() const = 0;
  // `node` launches a kernel that waits by itself (DeviceKernel::waits). If the driver has such edges (CUDA 12.3), the
  // graph starts the node while the kernel before it still runs.
  virtual void start_early(GraphNode node) = 0;
  // Throws InternalError if the capture was invalidated because something was called that cannot be captured.
  virtual std::unique_ptr<DeviceGraph> end() = 0;
  // Ends the capture, if there is one, and drops its nodes.
  virtual void abandon() noexcept = 0;
};

// For the current context. Throws Unsupported if the driver has no graphs.
std::unique_ptr<CaptureStream> make_capture_stream();
// Whether a capture is active on this stream (a CUstream; null is the default stream, which cannot be captured).
bool is_capturing(void* stream);
// Copies within the memory of GPUs, on the stream.
void copy_on_device(void* to, const void* from, size_t bytes, void* stream);

// While it lives, CUDA calls of this thread do not become errors because of another capture.
class RelaxedThread {
 public:
  RelaxedThread();
  ~RelaxedThread();
  RelaxedThread(const RelaxedThread&) = delete;

 private:
  int before_;
};

}  // namespace vesta::machine
