// Faults that tests inject into the stages of a compile and of a run. Without one, a stage reads one word.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace vesta::fault {

namespace detail {
extern std::atomic<bool> any;  // not inline: libraries that hide their symbols would each have their own
void reached(std::string_view stage);
bool spoils(std::string_view stage);
}  // namespace detail

// Whether any fault is injected.
inline bool any() { return detail::any.load(std::memory_order_relaxed); }

// Runs the stage's fault, which may take time or throw. For the stages of CompileReport::stages, and for places where
// something may fail within one: "trace" (each that begins), "operator" (each that is traced) and "operator:aten::exp",
// "guards", "gradients", "kernel" (each that is compiled, on the threads that do so), in a run, while nothing has
// been written and no input given up, "run" and "results", before the run of a segment of a backward pass "backward",
// and where a run is recorded as CUDA graphs, "record" and "capture" (each step).
inline void reached(std::string_view stage) {
  if (detail::any.load(std::memory_order_relaxed)) detail::reached(stage);
}

// Whether the stage has to give a wrong result. For single passes ("pass:views") and kernels ("kernel:exp_silu").
inline bool spoils(std::string_view stage) {
  return detail::any.load(std::memory_order_relaxed) && detail::spoils(stage);
}

// The fault of a stage from now on; nullptr: none. A call of it that has begun ends as it would have.
void inject(std::string_view stage, std::function<void()> fault);
// The fault of the place that is reached as the n-th from now on, on any thread; the first is number 0. nullptr: none.
void inject_at(size_t n, std::function<void(std::string_view stage)> fault);
// The stages that were reached since the last call of inject_at() with a fault, in their order.
std::vector<std::string> reached_since();
// From now on the stage gives a wrong result, or does not any more.
void spoil(std::string_view stage, bool wrong);

}  // namespace vesta::fault
