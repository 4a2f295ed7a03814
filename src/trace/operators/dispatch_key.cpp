#include "trace/operators/dispatch_key.h"

#include <atomic>
#include <mutex>

#include "base/check.h"

namespace vesta::trace {
namespace {
// Candidates are below autograd and autocast, and above BackendSelect (so that factories are seen) and every backend.
constexpr c10::DispatchKey kCandidates[] = {c10::DispatchKey::Fake, c10::DispatchKey::FuncTorchDynamicLayerBackMode};

std::atomic<c10::DispatchKey> key{c10::DispatchKey::Undefined};

using Kernel = void (*)(const c10::OperatorHandle&, torch::jit::Stack*);
struct FallbackFunctor final : c10::OperatorKernel {
  explicit FallbackFunctor(Kernel k) : kernel(k) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) { kernel(op, stack); }
  Kernel kernel;
};
}  // namespace

c10::DispatchKey trace_key() { return key.load(std::memory_order_acquire); }

c10::DispatchKey claim_trace_key(Kernel kernel) {
  static std::mutex mutex;
  if (const c10::DispatchKey k = trace_key(); k != c10::DispatchKey::Undefined) return k;
  const std::lock_guard lock(mutex);
  if (const c10::DispatchKey k = trace_key(); k != c10::DispatchKey::Undefined) return k;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::DispatchKey candidate : kCandidates) {
    if (dispatcher.hasBackendFallbackForDispatchKey(candidate)) continue;
    // The registration lives as long as the process: a traced tensor may outlive every trace.
    static auto* registration = new c10::RegistrationHandleRAII(dispatcher.registerFallback(
        candidate, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<FallbackFunctor>(kernel)),
        "vesta trace"));
    (void)registration;
    key.store(candidate, std::memory_order_release);
    return candidate;
  }
  VESTA_UNSUPPORTED("torch has no dispatch key left for tracing");
}

}  // namespace vesta::trace
