#include "codegen/llvm/module.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/PassInstrumentation.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include "base/check.h"
#include "codegen/llvm/emitter.h"

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

}  // namespace

std::unique_ptr<llvm::Module> build_module(loops::Kernel kernel, const std::string& symbol, const Target& target,
                                           llvm::LLVMContext& context, llvm::TargetMachine& machine) {
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
  Emitter(analyse(std::move(kernel)), *module, *f, target).run();
  // The check is cheap compared to code generation, which would crash on a malformed function.
  std::string broken;
  llvm::raw_string_ostream out(broken);
  if (llvm::verifyFunction(*f, &out)) VESTA_CHECK(false, "LLVM rejects the code of a kernel: {}", broken);
  simplify(*f, machine);
  return module;
}

}  // namespace vesta::codegen
