#include "base/interrupt.h"

#include <atomic>

namespace vesta::interrupt {
namespace {

std::atomic<Asked> function{nullptr};

}  // namespace

void set(Asked asked) { function.store(asked, std::memory_order_release); }

bool asked() {
  const Asked ask = function.load(std::memory_order_acquire);
  return ask && ask();
}

}  // namespace vesta::interrupt
