#include "codegen/llvm/module.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <filesystem>
#include <map>

#include "base/check.h"

namespace vesta::codegen {

namespace {

struct ObjectWriter {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out{bytes};
  llvm::legacy::PassManager passes;
};

// A thread keeps a writer for each of its machines. Making LLVM's passes for every kernel would add a sixth to the
// compile time of a typical kernel.
using ObjectWriters = std::map<const llvm::TargetMachine*, ObjectWriter>;
ObjectWriters& thread_writers() {
  thread_local ObjectWriters writers;
  return writers;
}

}  // namespace

std::unique_ptr<llvm::Module> new_module(const std::string& name, llvm::LLVMContext& context,
                                         const llvm::TargetMachine& machine) {
  auto module = std::make_unique<llvm::Module>(name, context);
  module->setDataLayout(machine.createDataLayout());
  module->setTargetTriple(machine.getTargetTriple().str());
  return module;
}

void set_target(llvm::Function& f, const Target& target, const llvm::TargetMachine& machine) {
  f.setDoesNotThrow();
  f.addFnAttr("target-cpu", machine.getTargetCPU());
  f.addFnAttr("target-features", machine.getTargetFeatureString());
  f.addFnAttr("prefer-vector-width", std::to_string(8 * target.vector_bytes));
}

void prepare(llvm::Function& f, llvm::TargetMachine& machine) {
  // The check is cheap compared to code generation, which would crash on a malformed function.
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyFunction(f, &out)) VESTA_CHECK(false, "LLVM rejects the code of a kernel: {}", broken);
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

std::string make_object(llvm::Module& module, llvm::TargetMachine& machine) {
  constexpr unsigned kMany =
      2000;  // instructions; after a larger kernel the passes are made anew, because they keep memory
  const bool is_large = module.getInstructionCount() > kMany;
  const auto [it, fresh] = thread_writers().try_emplace(&machine);
  ObjectWriter& writer = it->second;
  if (fresh) {
    llvm::MCContext* context = nullptr;
    const bool failed = machine.addPassesToEmitMC(writer.passes, context, writer.out, /*DisableVerify=*/true);
    VESTA_CHECK(!failed, "LLVM cannot emit code for this machine");
  }
  writer.bytes.clear();
  writer.passes.run(module);
  std::string object(writer.bytes.data(), writer.bytes.size());
  if (is_large) thread_writers().erase(it);
  return object;
}

void dump(const DumpTo& to, const llvm::Module& module, llvm::TargetMachine& machine) {
  std::filesystem::create_directories(to.directory);
  const std::string stem = to.directory + "/" + to.name;
  std::error_code error;
  llvm::raw_fd_ostream ir(stem + ".ll", error);
  module.print(ir, nullptr);
  const auto copy = llvm::CloneModule(module);
  llvm::raw_fd_ostream assembly(stem + ".s", error);
  llvm::legacy::PassManager passes;
  if (!machine.addPassesToEmitFile(passes, assembly, nullptr, llvm::CodeGenFileType::AssemblyFile)) passes.run(*copy);
}

}  // namespace vesta::codegen
