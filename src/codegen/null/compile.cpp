// Without LLVM kernels are interpreted: exact and slow, for tests. available() is false, so that the schedule prefers
// extern calls.
#include <array>
#include <mutex>
#include <string>
#include <utility>

#include "base/check.h"
#include "codegen/codegen.h"

namespace vesta::codegen {

namespace {

constexpr size_t kSlots = 256;

struct Slot {
  std::unique_ptr<loops::Kernel> kernel;
  std::string text;
  std::weak_ptr<const Code> code;
};
std::array<Slot, kSlots> slots;
std::mutex slots_mutex;

// A KernelFn carries no state, so each slot has a function of its own.
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
    std::lock_guard lock(slots_mutex);
    slots[slot_].kernel.reset();
  }
  KernelFn entry() const override { return kFunctions[slot_]; }
  size_t bytes() const override { return 0; }

 private:
  size_t slot_;
};

std::shared_ptr<const Code> compile_one(const Request& request) {
  auto kernel = loops::parse_kernel(request.text);
  std::lock_guard lock(slots_mutex);
  for (const Slot& s : slots) {
    if (s.text != request.text) continue;
    if (auto code = s.code.lock()) return code;
  }
  for (size_t i = 0; i < kSlots; ++i) {
    if (slots[i].kernel) continue;
    auto code = std::make_shared<InterpretedCode>(i);
    slots[i] = {std::move(kernel), request.text, code};
    return code;
  }
  VESTA_UNSUPPORTED("a build without LLVM interprets at most {} kernels at once", kSlots);
}

}  // namespace

const Target& host_target() {
  static const Target target{"none", 16, "interpreter"};
  return target;
}

bool available() { return false; }

std::vector<std::shared_ptr<const Code>> compile(const std::vector<Request>& requests, const CompileOptions&) {
  std::vector<std::shared_ptr<const Code>> result;
  for (const Request& r : requests) result.push_back(compile_one(r));
  return result;
}

}  // namespace vesta::codegen
