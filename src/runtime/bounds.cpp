#include "runtime/bounds.h"

#include "artifact/bytes.h"
#include "artifact/require.h"

namespace vesta::runtime {
namespace {

int64_t reach(const ResolvedTensor& t) {
  return artifact::reach(t.sizes, t.strides, static_cast<int64_t>(c10::elementSize(t.dtype)));
}

class Bounds {
 public:
  explicit Bounds(const Resolved& r) {
    for (const ResolvedTensor& b : r.buffers) bytes_.push_back(reach(b));
  }

  int64_t bytes(size_t buffer) const { return bytes_[buffer]; }

  void view(const ResolvedView& v) const {
    if (v.buffer < 0 || v.whole) return;
    const int64_t bytes = reach(v.type), whole = bytes_[static_cast<size_t>(v.buffer)];
    const __int128 at = static_cast<__int128>(v.offset) * static_cast<int64_t>(c10::elementSize(v.type.dtype));
    VESTA_REQUIRE(bytes == 0 || (v.offset >= 0 && at <= whole - bytes), "a view beyond its buffer");
  }

  void steps(const std::vector<Resolved::Step>& steps) const {
    for (const Resolved::Step& s : steps) {
      view(s.copy);
      for (const ResolvedView& v : s.inputs) view(v);
      for (const ResolvedExtern::Slot& slot : s.call.slots)
        for (const ResolvedView& v : slot.views) view(v);
      VESTA_REQUIRE(s.launch.items >= 0 && s.launch.scratch >= 0, "a launch of {} items with {} bytes of scratch",
                    s.launch.items, s.launch.scratch);
    }
  }

 private:
  std::vector<int64_t> bytes_;
};

}  // namespace

void require_bounds(const artifact::Artifact& a, const Resolved& r, std::span<const int64_t> arena_bytes) {
  const Bounds bounds(r);
  for (size_t b = 0; b < arena_bytes.size(); ++b)
    VESTA_REQUIRE(a.buffers[b].role != artifact::Role::Arena || bounds.bytes(b) <= arena_bytes[b],
                  "a buffer of {} bytes is too small", arena_bytes[b]);
  bounds.steps(r.prepacked);
  bounds.steps(r.steps);
  for (const Resolved::Output& o : r.outputs) bounds.view(o.view);
}

}  // namespace vesta::runtime
