#include "counted_bytes.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

namespace py = pybind11;

namespace vesta::python {
namespace {

// Counts the bytes that this thread allocates. PyTorch's allocators report them to it as to PyTorch's profiler.
class Allocated final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now() const { return now_; }
  int64_t most() const { return most_; }

 private:
  int64_t now_ = 0, most_ = 0;
};

Allocated counted(const py::function& call) {
  const auto allocated = std::make_shared<Allocated>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  call();
  return *allocated;
}

// Calls it twice in a new thread, which has no arena yet and has the modes of this one.
std::pair<int64_t, int64_t> bytes_of_calls(const py::function& call) {
  const at::ThreadLocalState modes;
  std::pair<int64_t, int64_t> out;
  std::exception_ptr error;
  {
    const py::gil_scoped_release release;
    std::thread([&] {
      const at::ThreadLocalStateGuard same(modes);
      const py::gil_scoped_acquire gil;
      try {
        out = {counted(call).now(), counted(call).most()};
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
  }
  if (error) std::rethrow_exception(error);
  return out;
}

}  // namespace

void add_counted_bytes(py::module_& m) {
  m.def("bytes_of_calls", &bytes_of_calls, py::arg("call"),
        "Calls it twice in a new thread. Returns the bytes that the first call leaves allocated, which are its arena, "
        "and the most that the second one has allocated at one time.");
}

}  // namespace vesta::python
