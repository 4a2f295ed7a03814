#include "codegen/llvm/kernel.h"

#include <fstream>

#include "base/check.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/shared_code.h"
#include "codegen/llvm/target.h"
#include "loops/kernel.h"

namespace vesta::codegen {

namespace {

// A module with one function from one kernel, ready for code generation. Adds expressions to the kernel's context,
// which must belong to this thread. While a thread waits for memory, it holds only the IR, about a
// tenth of what it waits for.
std::unique_ptr<llvm::Module> build_module(loops::Kernel kernel, const std::string& symbol, const Target& target,
                                           llvm::LLVMContext& context, llvm::TargetMachine& machine,
                                           const MemoryBound& memory, const DumpTo& dump_to) {
  memory.grows(static_cast<int64_t>(kernel.instrs.size()));  // none becomes less than an instruction
  std::unique_ptr<llvm::Module> module = new_module(symbol, context, machine);
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer, integer, integer}, false);
  llvm::Function* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, *module);
  set_target(*f, target, machine);
  Emitter emitter(analyse(std::move(kernel)), *module, *f, target, memory.grows);
  emitter.run();
  link_shared_functions(emitter.shared_functions(), *f, target, machine, memory, dump_to);
  memory.emitted(*f);
  prepare(*f, machine);
  return module;
}

}  // namespace

std::string make_object(const std::string& text, const std::string& symbol, const Target& target,
                        const MemoryBound& memory, const DumpTo& dump_to) {
  llvm::TargetMachine& machine = thread_target_machine(target);
  llvm::LLVMContext context;
  // The text is parsed into a context of its own, because threads may share the expressions of the request's kernel.
  std::unique_ptr<loops::Kernel> kernel = loops::parse_kernel(text);
  std::unique_ptr<llvm::Module> module =
      build_module(std::move(*kernel), symbol, target, context, machine, memory, dump_to);
  if (!dump_to.directory.empty()) {
    dump(dump_to, *module, machine);
    std::ofstream(dump_to.directory + "/" + dump_to.name + ".kernel") << text;
  }
  return make_object(*module, machine);
}

}  // namespace vesta::codegen
