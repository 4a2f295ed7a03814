#include "machine/cuda/retired.h"

#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "machine/cuda/driver_table.h"
#include "machine/cuda/graph.h"

namespace vesta::machine {
namespace {

using Owned = std::shared_ptr<const void>;

struct Retired {
  std::mutex mutex;
  std::vector<Owned> objects;
};
Retired& retired() {
  static auto* r = new Retired;  // objects may be retired while the process ends
  return *r;
}

constexpr unsigned kNoSync = 1;  // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC: nothing waits for the destructor
constexpr unsigned kMove = 1;    // CU_GRAPH_USER_OBJECT_MOVE: the graph takes over the caller's reference

// The part of cuda.h that is needed here. Every function returns 0 for success.
struct Functions {
  int (*capture)(void* stream, int* status, uint64_t* id, void** graph, void* const** after, size_t* count) = nullptr;
  int (*make)(void** object, void* value, void (*destroy)(void*), unsigned references, unsigned flags) = nullptr;
  int (*release)(void* object, unsigned references) = nullptr;
  int (*retain)(void* graph, void* object, unsigned references, unsigned flags) = nullptr;
};

const DriverTable<Functions>& table() {
  static const auto& found = driver_table<Functions>([](Symbols& symbols, Functions& f) {
    symbols.find(f.capture, "cuStreamGetCaptureInfo_v2");
    symbols.find(f.make, "cuUserObjectCreate");
    symbols.find(f.release, "cuUserObjectRelease");
    symbols.find(f.retain, "cuGraphRetainUserObject");
  });
  if (!found.driver) VESTA_UNSUPPORTED("a capture of the caller's cannot be used: {}", found.problem);
  return found;
}

// The driver calls it on a thread of its own, on which no function of CUDA may be called.
void retire_kept(void* kept) { retire(std::move(*std::unique_ptr<Owned>(static_cast<Owned*>(kept)))); }

}  // namespace

void retire(Owned object) noexcept {
  const std::lock_guard lock(retired().mutex);
  retired().objects.push_back(std::move(object));
}

bool has_retired() {
  const std::lock_guard lock(retired().mutex);
  return !retired().objects.empty();
}

void release_retired() {
  const RelaxedThread relaxed;  // other threads may capture
  for (;;) {
    std::vector<Owned> now;  // their destructors may retire others
    {
      const std::lock_guard lock(retired().mutex);
      now.swap(retired().objects);
    }
    if (now.empty()) return;
  }
}

void keep_for_graph(void* stream, Owned object) {
  const DriverTable<Functions>& driver = table();
  const Functions& f = driver.f;
  int status = 0;
  uint64_t id = 0;
  void *graph = nullptr, *kept = nullptr;
  void* const* after = nullptr;
  size_t count = 0;
  driver.require(f.capture(stream, &status, &id, &graph, &after, &count), "tells nothing of a capture");
  auto* const value = new Owned(std::move(object));
  const int made = f.make(&kept, value, &retire_kept, 1, kNoSync);
  if (made != 0) delete value;
  driver.require(made, "makes no object that a graph keeps");
  const int retained = f.retain(graph, kept, 1, kMove);
  if (retained != 0) f.release(kept, 1);
  driver.require(retained, "does not keep an object with a graph");
}

}  // namespace vesta::machine
