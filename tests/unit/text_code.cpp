// Code that interprets the text of a kernel.
#include <array>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "kernel_reference.h"
#include "machine/load.h"

namespace vesta::machine {

namespace {

constexpr size_t kSlots = 256;

struct Slot {
  std::atomic<bool> taken{false};
  std::unique_ptr<loops::Kernel> kernel;
};
std::array<Slot, kSlots> slots;

// A KernelFn has no state, so each slot needs a function of its own.
template <size_t I>
void run_slot(void* const* buffers, const int64_t* sizes, void*, int64_t begin, int64_t end) {
  const loops::Kernel& k = *slots[I].kernel;
  loops::interpret(k, {buffers, k.buffers.size()}, {sizes, k.sizes.size()}, begin, end);
}

template <size_t... I>
constexpr std::array<KernelFn, sizeof...(I)> slot_functions(std::index_sequence<I...>) {
  return {&run_slot<I>...};
}
constexpr auto kFunctions = slot_functions(std::make_index_sequence<kSlots>());

class InterpretedCode final : public Code {
 public:
  explicit InterpretedCode(size_t slot) : slot_(slot) {}
  ~InterpretedCode() override {
    slots[slot_].kernel.reset();
    slots[slot_].taken = false;
  }
  KernelFn entry() const override { return kFunctions[slot_]; }
  size_t bytes() const override { return 0; }

 private:
  size_t slot_;
};

std::shared_ptr<const Code> load_interpreted(const Object& object) {
  auto kernel = loops::parse_kernel(object.bytes);
  for (size_t i = 0; i < kSlots; ++i) {
    if (slots[i].taken.exchange(true)) continue;
    slots[i].kernel = std::move(kernel);
    return std::make_shared<InterpretedCode>(i);
  }
  VESTA_UNSUPPORTED("at most {} kernels are interpreted at once", kSlots);
}

[[maybe_unused]] const bool loads_text = (load_text = load_interpreted, true);

}  // namespace

}  // namespace vesta::machine
