#include "codegen/llvm/kernel.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "codegen/llvm/emitter.h"
#include "codegen/llvm/target.h"
#include "loops/kernel.h"

namespace vesta::codegen {

namespace {

// Promotes stack slots to values and merges equal values. The emitter has already done the rest of the usual pipeline.
void simplify(llvm::Function& f, llvm::TargetMachine& machine) {
  llvm::DominatorTree tree(f);
  std::vector<llvm::AllocaInst*> slots;
  for (llvm::Instruction& i : f.getEntryBlock()) {
    auto* slot = llvm::dyn_cast<llvm::AllocaInst>(&i);
    if (slot && llvm::isAllocaPromotable(slot)) slots.push_back(slot);
  }
  llvm::PromoteMemToReg(slots, tree);
  llvm::FunctionAnalysisManager analyses;
  analyses.registerPass([&] { return machine.getTargetIRAnalysis(); });
  analyses.registerPass([&] { return llvm::TargetLibraryAnalysis(); });
  analyses.registerPass([&] { return llvm::DominatorTreeAnalysis(); });
  analyses.registerPass([&] { return llvm::AssumptionAnalysis(); });
  analyses.registerPass([&] { return llvm::PassInstrumentationAnalysis(); });
  llvm::EarlyCSEPass().run(f, analyses);
}

// A module with one function from one kernel, ready for code generation. Adds expressions to the kernel's context,
// which must belong to this thread. While a thread waits for memory, it holds only the IR, about a
// tenth of what it waits for.
std::unique_ptr<llvm::Module> build_module(loops::Kernel kernel, const std::string& symbol, const Target& target,
                                           llvm::LLVMContext& context, llvm::TargetMachine& machine,
                                           const MemoryBound& memory) {
  memory.grows(static_cast<int64_t>(kernel.instrs.size()));  // none becomes less than an instruction
  auto module = std::make_unique<llvm::Module>(symbol, context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* integer = llvm::Type::getInt64Ty(context);
  auto* type =
      llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer, pointer, integer, integer}, false);
  llvm::Function* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, *module);
  f->setDoesNotThrow();
  f->addFnAttr("target-cpu", machine.getTargetCPU());
  f->addFnAttr("target-features", machine.getTargetFeatureString());
  f->addFnAttr("prefer-vector-width", std::to_string(8 * target.vector_bytes));
  Emitter(analyse(std::move(kernel)), *module, *f, target, memory.grows).run();
  memory.emitted(*f);
  // The check is cheap compared to code generation, which would crash on a malformed function.
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyFunction(*f, &out)) VESTA_CHECK(false, "LLVM rejects the code of a kernel: {}", broken);
  simplify(*f, machine);
  return module;
}

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

}  // namespace

std::string make_object(const std::string& text, const std::string& symbol, const Target& target,
                        const MemoryBound& memory, const DumpTo& dump_to) {
  llvm::TargetMachine& machine = thread_target_machine(target);
  llvm::LLVMContext context;
  // The text is parsed into a context of its own, because threads may share the expressions of the request's kernel.
  std::unique_ptr<loops::Kernel> kernel = loops::parse_kernel(text);
  std::unique_ptr<llvm::Module> module = build_module(std::move(*kernel), symbol, target, context, machine, memory);
  if (!dump_to.directory.empty()) dump(dump_to.directory, dump_to.name, text, *module, machine);
  return emit_object(*module, machine);
}

}  // namespace vesta::codegen
