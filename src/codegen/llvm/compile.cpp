// Compiles a kernel's text to an ELF object with LLVM.
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <fstream>

#include "base/check.h"
#include "codegen/batch.h"
#include "codegen/generator.h"
#include "codegen/llvm/module.h"
#include "codegen/llvm/target.h"

namespace vesta::codegen {

namespace {

std::string emit_object(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  llvm::MCContext* context = nullptr;
  bool failed = machine.addPassesToEmitMC(passes, context, out, /*DisableVerify=*/true);
  VESTA_CHECK(!failed, "LLVM cannot emit code for this machine");
  passes.run(module);
  return {bytes.data(), bytes.size()};
}

void dump(const std::string& directory, const std::string& name, const std::string& text, llvm::Module& module,
          llvm::TargetMachine& machine) {
  std::filesystem::create_directories(directory);
  std::string stem = directory + "/" + name;
  std::ofstream(stem + ".kernel") << text;
  std::error_code error;
  llvm::raw_fd_ostream ir(stem + ".ll", error);
  module.print(ir, nullptr);
  auto copy = llvm::CloneModule(module);
  llvm::raw_fd_ostream assembly(stem + ".s", error);
  llvm::legacy::PassManager passes;
  if (!machine.addPassesToEmitFile(passes, assembly, nullptr, llvm::CodeGenFileType::AssemblyFile)) passes.run(*copy);
}

std::string generate(const Request& request, const std::string& symbol, const Target& target,
                     const std::string& dump_dir) {
  llvm::TargetMachine& machine = thread_target_machine(target);
  llvm::LLVMContext context;
  // The text is parsed into a context of its own, because threads may share the expressions of the request's kernel.
  std::unique_ptr<loops::Kernel> kernel = loops::parse_kernel(request.text);
  std::unique_ptr<llvm::Module> module = build_module(std::move(*kernel), symbol, target, context, machine);
  if (!dump_dir.empty()) dump(dump_dir, request.name, request.text, *module, machine);
  return emit_object(*module, machine);
}

}  // namespace

std::vector<Result> compile_with_llvm(const std::vector<Request>& requests, const Target& target,
                                      const CompileOptions& options) {
  const auto code = [&](std::span<const Wanted> wanted, const Parallel& parallel, const auto& done) {
    parallel(wanted.size(),
             [&](size_t i) { done(i, generate(*wanted[i].request, wanted[i].symbol, target, options.dump_dir)); });
  };
  return compile_batch(requests, {machine::Form::Elf, llvm_fingerprint(target), code}, options);
}

}  // namespace vesta::codegen
