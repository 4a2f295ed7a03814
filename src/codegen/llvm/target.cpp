#include "codegen/llvm/target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>

#include <map>
#include <mutex>

#include "base/check.h"
#include "base/digest.h"
#include "codegen/codegen.h"
#include "machine/imports.h"
#include "vesta_codegen_digest.h"

namespace vesta::codegen {

namespace {

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    // Loops arrive with their addresses already in shape; looking for better ones takes a millisecond a kernel.
    auto& options = llvm::cl::getRegisteredOptions();
    if (auto it = options.find("disable-lsr"); it != options.end()) {
      static_cast<llvm::cl::opt<bool>*>(it->second)->setValue(true);
    }
  });
}

}  // namespace

bool available(const Target& t) { return t.device == DeviceType::CPU && t.triple.starts_with("x86_64-"); }

const std::string& fingerprint(const Target& target) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::string>;
  const std::string code = code_text(target);
  const std::lock_guard lock(mutex);
  std::string& text = (*known)[code];
  if (text.empty())
    text = fmt::format("llvm {}; {}; vector functions {}; sources {}", LLVM_VERSION_STRING, code,
                       digest({machine::vector_functions()}), VESTA_CODEGEN_DIGEST);
  return text;
}

llvm::TargetMachine& thread_target_machine(const Target& target) {
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[code_text(target)];
  if (!machine) {
    initialize_llvm();
    std::string error;
    const llvm::Target* t = llvm::TargetRegistry::lookupTarget(target.triple, error);
    VESTA_CHECK(t != nullptr, "LLVM does not know the target: {}", error);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    machine.reset(t->createTargetMachine(target.triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                         llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less, /*JIT=*/true));
  }
  return *machine;
}

}  // namespace vesta::codegen
