// Faults that tests inject into the stages of a compile. Without one, a stage reads one word.
#pragma once

#include <atomic>
#include <functional>
#include <string_view>

namespace vesta::fault {

namespace detail {
inline std::atomic<bool> any{false};
void reached(std::string_view stage);
bool spoils(std::string_view stage);
}  // namespace detail

// Whether any fault is injected.
inline bool any() { return detail::any.load(std::memory_order_relaxed); }

// Runs the stage's fault, which may take time or throw. For the stages of CompileReport::stages, and for each operator
// of a trace ("operator:aten::exp").
inline void reached(std::string_view stage) {
  if (detail::any.load(std::memory_order_relaxed)) detail::reached(stage);
}

// Whether the stage has to give a wrong result. For single passes ("pass:views") and kernels ("kernel:exp_silu").
inline bool spoils(std::string_view stage) {
  return detail::any.load(std::memory_order_relaxed) && detail::spoils(stage);
}

// The fault of a stage from now on; nullptr: none. A call of it that has begun ends as it would have.
void inject(std::string_view stage, std::function<void()> fault);
// From now on the stage gives a wrong result, or does not any more.
void spoil(std::string_view stage, bool wrong);

}  // namespace vesta::fault
