#include "machine/interpreted.h"

#include <array>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "loops/kernel.h"

namespace vesta::machine {

namespace {

constexpr size_t kSlots = 256;

std::array<std::unique_ptr<loops::Kernel>, kSlots> slots;
std::mutex slots_mutex;

// A KernelFn carries no state, so each slot has a function of its own.
template <size_t I>
void run_slot(void* const* buffers, const int64_t* sizes, void*, int64_t begin, int64_t end) {
  const loops::Kernel& k = *slots[I];
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
    const std::lock_guard lock(slots_mutex);
    slots[slot_].reset();
  }
  KernelFn entry() const override { return kFunctions[slot_]; }
  size_t bytes() const override { return 0; }

 private:
  size_t slot_;
};

}  // namespace

std::shared_ptr<const Code> load_interpreted(const Object& object) {
  auto kernel = loops::parse_kernel(object.bytes);
  const std::lock_guard lock(slots_mutex);
  for (size_t i = 0; i < kSlots; ++i) {
    if (slots[i]) continue;
    slots[i] = std::move(kernel);
    return std::make_shared<InterpretedCode>(i);
  }
  VESTA_UNSUPPORTED("at most {} kernels are interpreted at once", kSlots);
}

}  // namespace vesta::machine
