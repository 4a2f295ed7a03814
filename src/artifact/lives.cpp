#include "artifact/lives.h"

#include <algorithm>

#include "artifact/require.h"
#include "artifact/uses.h"

namespace vesta::artifact {
namespace {

class Lives {
 public:
  explicit Lives(const Artifact& a) : a_(a), prepacked_(a.buffers.size()), used_(a.buffers.size()) {}

  void run() {
    for (const Step& s : a_.prepacked) {
      for_each_use(s, [&](int b, uint8_t access, bool is_kernel) {
        VESTA_REQUIRE(!(access & kWrites) || at(b).role != Role::Input,
                      "a step that makes prepacked constants writes to input {}", at(b).input);
        if (access & kWrites || is_kernel) prepacked_[index(b)] = true;
      });
    }
    for (size_t i = 0; i < a_.steps.size(); ++i) {
      const bool is_call = !std::holds_alternative<Launch>(a_.steps[i]);
      for_each_use(a_.steps[i], [&](int b, uint8_t access, bool) {
        lives(b, static_cast<int>(i));
        if (!(access & kWrites)) return;
        VESTA_REQUIRE(at(b).role != Role::Prepacked, "step {} writes the prepacked constant {}", i, b);
        VESTA_REQUIRE(at(b).role != Role::Input || (!is_call && is_written(at(b).input)),
                      "step {} writes to input {}, which the program does not change", i, at(b).input);
      });
    }
    for (const Output& o : a_.outputs)
      if (o.kind == OutputKind::Fresh && !a_.steps.empty()) lives(o.view.buffer, static_cast<int>(a_.steps.size()) - 1);
    if (a_.is_static) nothing_overlaps();
  }

 private:
  static size_t index(int i) { return static_cast<size_t>(i); }
  const Buffer& at(int b) const { return a_.buffers[index(b)]; }

  bool is_written(int input) const {
    return std::any_of(a_.steps.begin(), a_.steps.end(), [&](const Step& s) {
      const auto* c = std::get_if<CopyBack>(&s);
      return c && c->input == input && c->from.buffer >= 0 && at(c->from.buffer).role == Role::Input &&
             at(c->from.buffer).input == input;
    });
  }

  void lives(int b, int step) {
    const Buffer& buffer = at(b);
    used_[index(b)] = true;
    VESTA_REQUIRE(buffer.role != Role::Prepacked || prepacked_[index(b)], "no step makes the prepacked constant {}", b);
    if (buffer.role != Role::Arena) return;
    VESTA_REQUIRE(buffer.first_step <= step && step <= buffer.last_step,
                  "step {} uses buffer {}, which lives from step {} to {}", step, b, buffer.first_step,
                  buffer.last_step);
    VESTA_REQUIRE(!a_.is_static || a_.arena.offsets[index(b)] >= 0, "buffer {} has no place in the arena", b);
  }

  // Buffers in the order of their first step. Each is compared with those that began before it and still live.
  void nothing_overlaps() const {
    std::vector<int> order, living;
    for (int b = 0; b < static_cast<int>(a_.buffers.size()); ++b)
      if (used_[index(b)] && at(b).role == Role::Arena && at(b).bytes.steps[0].value > 0) order.push_back(b);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return at(x).first_step < at(y).first_step; });
    for (const int b : order) {
      std::erase_if(living, [&](int other) { return at(other).last_step < at(b).first_step; });
      const int64_t begin = a_.arena.offsets[index(b)], end = begin + at(b).bytes.steps[0].value;
      for (const int other : living) {
        const int64_t from = a_.arena.offsets[index(other)], to = from + at(other).bytes.steps[0].value;
        VESTA_REQUIRE(
            end <= from || to <= begin || a_.arena.is_early(at(b).last_step) != a_.arena.is_early(at(other).last_step),
            "buffers {} and {} of the arena share memory", other, b);
      }
      living.push_back(b);
    }
  }

  const Artifact& a_;
  std::vector<bool> prepacked_, used_;
};

}  // namespace

void verify_lives(const Artifact& artifact) { Lives(artifact).run(); }

}  // namespace vesta::artifact
