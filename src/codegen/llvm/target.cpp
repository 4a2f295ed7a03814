#include "codegen/llvm/target.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>

#include <map>
#include <mutex>

#include "base/check.h"

namespace vesta::codegen {

namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // The emitter already gives loops good addresses. LLVM's search for better ones would take a millisecond per
    // kernel.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto it = options.find("disable-lsr"); it != options.end()) {
      static_cast<llvm::cl::opt<bool>*>(it->second)->setValue(true);
    }
  });
}

}  // namespace

llvm::TargetMachine& thread_target_machine(const Target& target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[code_text(target)];
  if (!machine) {
    initialize_llvm();
    std::string error;
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(target.triple, error);
    VESTA_CHECK(t != nullptr, "LLVM does not support the target: {}", error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    machine.reset(t->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                         llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, /*JIT=*/true));
  }
  return *machine;
}

}  // namespace vesta::codegen
