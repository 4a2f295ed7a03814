#include "codegen/llvm/kernel_compiler.h"

#include <fmt/format.h>

#include <chrono>

#include "base/byte_text.h"
#include "base/check.h"
#include "base/fault.h"
#include "codegen/generator.h"
#include "codegen/llvm/kernel_compiler_messages.h"
#include "codegen/llvm/memory.h"
#include "machine/child.h"

namespace vesta::codegen {
namespace {

// With less, a process is not started: it takes 0.6 MiB before it begins, besides the pages of its file.
constexpr int64_t kLeast = 2 << 20;

std::string fault_for_tests() {
  for (const char* kind : {"crash", "memory", "delay"})
    if (fault::spoils(fmt::format("kernel-compiler:{}", kind))) return kind;
  return {};
}

}  // namespace

Generated generate_in_kernel_compiler(const Wanted& kernel, const Target& target, const CompileOptions& options,
                                      const OverBudget& refused) {
  const auto refuse = [&](const std::string& why) {
    return OverBudget(fmt::format("{}; in a process of its own, {}", refused.what(), why), refused.bytes);
  };
  CompileMemory memory(CompileMemory::Part::Generators);
  const int64_t bytes = memory.take_all(compile_budget(options.memory), options.cancel);
  if (bytes < kLeast || refused.bytes / kMostOverestimated > bytes) throw refused;
  const auto program = machine::program_beside("vesta_kernel_compiler");
  if (!program) throw refuse("it cannot be compiled: the program vesta_kernel_compiler is not beside Vesta's library");
  const std::string request = to_bytes(KernelCompilerRequest{llvm_fingerprint(target), kernel.symbol,
                                                             kernel.request->text, target, bytes, fault_for_tests()});
  const auto end = std::chrono::steady_clock::now() + options.kernel_compiler_time;
  const machine::ChildEnded ended = machine::run_child(*program, request, end, options.cancel);
  if (ended.status == kExhausted) throw refuse("it took more than these " + byte_text(bytes));
  if (!ended.why.empty()) throw refuse(ended.why);
  KernelCompilerAnswer answer = answer_of(ended.answer);
  if (!answer.error.empty()) throw refuse(answer.error);
  return {std::move(answer.object), bytes};
}

}  // namespace vesta::codegen
