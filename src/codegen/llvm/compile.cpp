// The generator for CPUs: kernels on the threads of this process, and those that are too large in processes of their
// own.
#include <llvm/IR/Function.h>

#include <optional>

#include "base/compile_memory.h"
#include "base/fault.h"
#include "codegen/batch.h"
#include "codegen/generator.h"
#include "codegen/llvm/kernel.h"
#include "codegen/llvm/kernel_compiler.h"
#include "codegen/llvm/memory.h"

namespace vesta::codegen {
namespace {

// Takes LLVM's memory for the kernel from the options' budget. While a thread waits for memory, or for a function that
// another thread compiles, it holds only the IR, about a tenth of what it waits for. Throws OverBudget.
Generated generate(const Wanted& kernel, const Target& target, const CompileOptions& options) {
  CompileMemory memory(CompileMemory::Part::Generators);
  const std::string what = "the kernel " + kernel.request->name;
  const int64_t budget = compile_budget(options.memory);
  int64_t bytes = 0;
  const MemoryBound bound{
      [&](int64_t instructions) { memory.require(llvm_memory(instructions), budget, what); },
      [&](const llvm::Function& f) { memory.take(bytes = llvm_memory(f), budget, what, options.cancel); },
      [&] { memory.take(0, budget, what, options.cancel); }};
  std::string object =
      make_object(kernel.request->text, kernel.symbol, target, bound, {options.dump_dir, kernel.request->name});
  return {std::move(object), bytes};
}

}  // namespace

std::vector<Result> compile_with_llvm(const std::vector<Request>& requests, const Target& target,
                                      const CompileOptions& options) {
  const auto code = [&](std::span<const Wanted> wanted, const Parallel& parallel, const auto& done) {
    std::vector<std::optional<OverBudget>> too_large(wanted.size());
    parallel(wanted.size(), [&](size_t i) {
      if (options.cancel) options.cancel->check();
      fault::reached("kernel");
      const KernelSpan span(wanted[i], "compiled");
      try {
        done(i, generate(wanted[i], target, options));
      } catch (const OverBudget& e) {
        too_large[i] = e;
      }
    });
    // One after another, because each takes all of the memory; on this thread, which is not inside of LLVM, so that
    // fork() does not wait for them.
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!too_large[i]) continue;
      const KernelSpan span(wanted[i], "compiled in a process of its own");
      done(i, generate_in_kernel_compiler(wanted[i], target, options, *too_large[i]));
    }
  };
  return compile_batch(requests, {machine::Form::Elf, llvm_fingerprint(target), code}, options);
}

}  // namespace vesta::codegen
